"""A run's folder: refused when it is another's, resumed when it is its own, complete when it is finished."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
import ray
from omegaconf import OmegaConf
from rich.console import Console
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.config import BudgetConfig
from agentgym_rl.engine.recipe.digest import versions
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run import account, lock
from agentgym_rl.engine.run.folder import RunFolder, RunFolderError, State
from agentgym_rl.engine.run.lock import locked
from agentgym_rl.engine.run.manifest import seal
from agentgym_rl.engine.run.metrics_log import MetricsLog, read
from agentgym_rl.engine.run.stop import Stop, ended_as_by_ctrl_c, on_signals
from agentgym_rl.engine.run.train import train
from agentgym_rl.engine.verl import cluster, launch
from agentgym_rl.engine.verl.cluster import RayNotStarted, _start
from agentgym_rl.engine.verl.sync_probe import doubt
from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.supervised import Example

LOCAL = {"wandb": "disabled", "tensorboard": False}
"""Metrics go to the run's own file only."""
STATE = State(
    stage=1,
    unit=2,
    global_step=5,
    checkpoint="global_step_5",
    origin="global_step_3",
    updates=[(4, 1e-3, 2), (4, 1e-4, 2)],
    algorithm="algorithm_agentevol_000005.json",
    episodes=64,
    wall_s=12.5,
    results=[{"name": "untrained", "panels": {}}],
)


def test_a_state_comes_back(tmp_path):
    folder = RunFolder(tmp_path / "run", "a: 1\n", resume=True)
    assert (folder.resumed, folder.load_state()) == (False, State())
    folder.save_state(STATE)
    again = RunFolder(tmp_path / "run", "a: 1\n", resume=True)
    assert again.resumed and again.load_state() == STATE
    assert not again.finished
    again.write_summary({"stages": []})
    assert again.finished and RunFolder(tmp_path / "run", "a: 1\n", resume=True).finished


def test_states_of_algorithms_and_journals_last_as_long_as_the_state_needs_them(tmp_path):
    folder = RunFolder(tmp_path, "a: 1\n", resume=True)
    pool = {"successes": [{"input_ids": [1, 2], "loss_weight": [0.0, 1.0]}]}
    names = [folder.save_algorithm("agentevol", step, pool) for step in (4, 5, 6)]
    for step in (5, 6):
        Journal(folder.journal(step)).close()
    folder.drop_leftovers(replace(STATE, algorithm=names[1], learnt={"algorithm": names[2]}))
    assert folder.load_algorithm(names[1]) == pool == folder.load_algorithm(names[2])
    assert not (tmp_path / names[0]).exists()
    assert not folder.journal(5).exists() and folder.journal(6).exists()


def test_a_journal_outlives_a_kill(tmp_path):
    def episode(index):
        return Episode(env="counter", item_id="counter_1", ending=Ending.TERMINATED, reward=1.0, success=True,
                       max_turns=3, tags={"index": index})  # fmt: skip

    path = tmp_path / "exploring" / "step000007.jsonl"
    journal = Journal(path)
    folded = [Example([1, 2], [0.0, 1.0]), Example([1, 3], [0.0, 1.0])]
    journal.add("4", Entry(episode(4), folded))
    journal.add("2", Entry(episode(2)))
    with path.open("a") as file:
        file.write('{"episode": {"env"')  # the process died while it wrote
    again = Journal(path)
    assert again.entries == {"4": Entry(episode(4), tuple(folded)), "2": Entry(episode(2))}
    again.add("0", Entry(episode(0)))
    assert sorted(Journal(path).entries) == ["0", "2", "4"]


def test_a_state_goes_back_to_where_more_steps_go_on():
    state = replace(STATE, stage_updates=5, results=[{"name": "untrained"}, {"name": "agentevol"}, {"name": "control"}])
    state.stage_episodes, state.stage_wall_s = 64, 9.5
    state.end_of_algorithm(2)
    ended = replace(state)
    state.stage, state.unit, state.global_step, state.checkpoint, state.updates = 3, 0, 9, "global_step_9", []
    state.stage_episodes, state.stage_wall_s = 0, 0.0
    assert not state.extend(2, BudgetConfig()), "it has no more units than before"
    assert not state.extend(4, BudgetConfig(updates=5)), "it has spent its budget"
    assert state.extend(4, BudgetConfig(updates=6))
    same = ("stage", "unit", "global_step", "checkpoint", "updates", "algorithm", "stage_episodes", "stage_wall_s")
    assert [getattr(state, name) for name in same] == [getattr(ended, name) for name in same]
    assert state.results == [{"name": "untrained"}] and not state.fresh_optimizer
    del state.learnt["stage_episodes"], state.learnt["stage_wall_s"]
    state.stage = 3
    assert state.extend(5, BudgetConfig()), "of an earlier version"
    state.stage, state.learnt["updates"] = 3, []
    assert state.extend(6, BudgetConfig()) and state.fresh_optimizer, "a stage that has learned nothing has no moments"


def test_a_checkpoint_is_found_or_missed(tmp_path):
    folder = RunFolder(tmp_path / "run", "a: 1\n", resume=True)
    (folder.checkpoints / "global_step_5").mkdir(parents=True)
    (tmp_path / "cached").mkdir()
    assert folder.checkpoint(None) is None
    assert folder.checkpoint("global_step_5") == folder.checkpoints / "global_step_5"
    assert folder.checkpoint(str(tmp_path / "cached")) == tmp_path / "cached"
    with pytest.raises(RunFolderError, match="global_step_6 is gone"):
        folder.checkpoint("global_step_6")


def test_a_folder_of_another_run(tmp_path):
    RunFolder(tmp_path, "a: 1\nb: 2\n", resume=True).save_state(STATE)
    with pytest.raises(RunFolderError, match=r"another configuration \(b=2 there, 3 here\)"):
        RunFolder(tmp_path, "a: 1\nb: 3\n", resume=True)
    with pytest.raises(RunFolderError, match=r"already holds a run; set run\.resume=true"):
        RunFolder(tmp_path, "a: 1\nb: 2\n", resume=False)
    assert (tmp_path / "identity.yaml").read_text() == "a: 1\nb: 2\n"


def test_a_folder_of_an_earlier_version(tmp_path):
    RunFolder(tmp_path, "a: 1\n", resume=True).save_state(STATE)
    (tmp_path / "identity.yaml").unlink()
    with pytest.raises(RunFolderError, match=r"a run of an earlier version; .*choose another run\.dir"):
        RunFolder(tmp_path, "a: 1\n", resume=True)


def test_checkpoints_without_their_state_are_no_fresh_start(tmp_path):
    saved(RunFolder(tmp_path, "a: 1\n", resume=True), 3)
    (tmp_path / "state.json").unlink()
    with pytest.raises(
        RunFolderError, match=r"state\.json is missing, but .* holds global_step_3; copy state\.previous"
    ):
        RunFolder(tmp_path, "a: 1\n", resume=True)


def saved(folder, step, content=b"weights"):
    """Write a checkpoint and the state that names it."""
    name = f"global_step_{step}"
    (folder.checkpoints / name / "actor").mkdir(parents=True)
    (folder.checkpoints / name / "actor" / "model.pt").write_bytes(content * step)
    seal(folder.checkpoints / name)
    state = State(stage=1, global_step=step, checkpoint=name, algorithm=folder.save_algorithm("grpo", step, {}))
    folder.save_state(state)
    folder.drop_leftovers(state)
    return state


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not JSON"),
        ('{"stage": 1', "not JSON"),
        ("[" * 200_000, "nested too deeply"),
        ("[]", "expected an object, found list"),
        ('{"stage": 1, "horizon": 3}', "the key 'horizon' is unknown, so another version wrote it"),
        ('{"stage": "one"}', "stage: Input should be a valid integer, found 'one'"),
        ('{"updates": [[1, 2.0]]}', "updates > 0 > 2: "),
        ("\xff", "not UTF-8"),
    ],
)
def test_a_damaged_state_is_one_line_with_what_to_do(tmp_path, content, says):
    folder = RunFolder(tmp_path, "a: 1\n", resume=True)
    (tmp_path / "state.json").write_text(content, encoding="latin-1")
    with pytest.raises(RunFolderError) as caught:
        folder.load_state()
    told = str(caught.value)
    assert f"{tmp_path}/state.json" in told and says in told and "copy state.previous.json over state.json" in told
    assert "\n" not in told


def test_any_state_comes_back_and_none_with_a_value_of_another_type(tmp_path):
    folder = RunFolder(tmp_path, "", resume=True)
    folder.save_state(STATE)
    assert folder.load_state() == STATE
    plain = json.loads((tmp_path / "state.json").read_text())
    for key in plain:
        (tmp_path / "state.json").write_text(json.dumps(plain | {key: {"not": ["this"]}}))
        if key in ("learnt", "mixture", "curriculum"):
            folder.load_state()
            continue
        with pytest.raises(RunFolderError, match=rf"state\.json: {key}( > not)?: "):
            folder.load_state()


DAMAGE = {
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "changed": lambda file: file.write_bytes(file.read_bytes()[:-1] + b"X"),
    "gone": lambda file: file.unlink(),
    "all gone": lambda file: shutil.rmtree(file.parent.parent),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_checkpoint_before_is_used_where_the_newest_is_damaged(tmp_path, damage):
    folder = RunFolder(tmp_path, "", resume=True)
    first, second = saved(folder, 3), saved(folder, 6)
    assert folder.whole(second) == (second, None)
    DAMAGE[damage](tmp_path / "checkpoints" / "global_step_6" / "actor" / "model.pt")
    state, remark = folder.whole(folder.load_state())
    assert state == first == folder.load_state()
    assert "global_step_6" in remark and "Going on from the checkpoint before, at step 3" in remark
    assert folder.load_algorithm(state.algorithm) == {}
    DAMAGE[damage](tmp_path / "checkpoints" / "global_step_3" / "actor" / "model.pt")
    with pytest.raises(RunFolderError, match=r"checkpoint .*global_step_3 is (damaged: .*actor/model\.pt|gone)"):
        folder.whole(state)


def test_a_damaged_algorithm_is_as_bad_as_its_checkpoint(tmp_path):
    folder = RunFolder(tmp_path, "", resume=True)
    first, second = saved(folder, 3), saved(folder, 6)
    (tmp_path / second.algorithm).write_text("{")
    assert folder.whole(second)[0] == first
    with pytest.raises(RunFolderError, match=r"algorithm_grpo_000006\.json: not JSON"):
        folder.load_algorithm(second.algorithm)


def test_a_checkpoint_of_an_earlier_version_has_no_manifest_and_is_taken_as_it_is(tmp_path):
    folder = RunFolder(tmp_path, "", resume=True)
    state = saved(folder, 3)
    (tmp_path / "checkpoints" / "global_step_3" / "manifest.json").unlink()
    assert folder.whole(state) == (state, None)


@pytest.mark.parametrize("row", ["[]", '{"a": 1}', '{"step": "2"}', "{", "\xff"])
def test_damaged_metrics_name_file_and_line(tmp_path, row):
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1}}\n{row}\n', encoding="latin-1")
    with pytest.raises(ValueError, match=r"metrics\.jsonl, (row|line) 2: not "):
        MetricsLog(
            tmp_path, {"logger": {"wandb": "disabled", "tensorboard": False}, "name": "x", "seed": 0}, last_step=1
        )


@pytest.mark.parametrize("row", ["[]", "{}", '{"key": "1"}', '{"key": "1", "episode": {"env": 1}}', "{", "\xff"])
def test_a_damaged_journal_names_file_and_entry(tmp_path, row):
    path = tmp_path / "step000001.jsonl"
    path.write_text(f"{row}\n", encoding="latin-1")
    with pytest.raises(ValueError, match=r"step000001\.jsonl, (entry|line) 1.*; delete this line"):
        Journal(path)


def test_a_folder_without_a_state_may_be_used_again(tmp_path):
    RunFolder(tmp_path, "a: 1\n", resume=True)
    RunFolder(tmp_path, "a: 2\n", resume=False, config="all: 2\n")
    assert (tmp_path / "identity.yaml").read_text() == "a: 2\n"
    assert (tmp_path / "config.yaml").read_text() == "all: 2\n"


@pytest.mark.parametrize("where", ["/dev/null/x", "{tmp}/file/run"])
def test_a_folder_that_cannot_be_written(tmp_path, where):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"cannot be written: .*choose another run\.dir"):
        RunFolder(tmp_path / where.format(tmp=tmp_path), "", resume=True)


def test_episodes_come_back(tmp_path):
    turn = Turn(response="Action: schön", action="schön", observation="雪", reward=1.0, invalid=False, tokens=(3, 9))
    episodes = [
        Episode(env="counter", item_id=f"counter_{number}", ending=ending, reward=0.5, success=False, max_turns=5,
                turns=[turn] * number, tags={"panel": "test"})
        for number, ending in enumerate(Ending)
    ]  # fmt: skip
    folder = RunFolder(tmp_path, "", resume=True)
    folder.write_episodes("step000001", episodes, None)
    folder.write_episodes("empty", [], None)
    assert episode_store.read(tmp_path / "episodes" / "step000001.parquet") == episodes
    assert episode_store.read(tmp_path / "episodes" / "empty.parquet") == []
    assert sorted(path.name for path in (tmp_path / "episodes").iterdir()) == [
        "empty.parquet", "step000001.parquet",
    ]  # fmt: skip


def test_metrics_after_the_checkpoint_are_dropped_on_resuming(tmp_path):
    config = {"logger": LOCAL, "name": "x", "seed": 0}
    log = MetricsLog(tmp_path, config, last_step=0)
    for step in (1, 2, 2, 3):
        log.log(step, {"a": step / 2})
    log.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "a"')  # killed while writing
    resumed = MetricsLog(tmp_path, config, last_step=2)
    resumed.log(3, {"a": 9.0})
    resumed.close()
    assert read(tmp_path) == [
        {"step": 1, "a": 0.5}, {"step": 2, "a": 1.0}, {"step": 2, "a": 1.0}, {"step": 3, "a": 9.0},
    ]  # fmt: skip


def test_versions_name_what_a_result_depends_on():
    found = versions()
    assert {"python", "agentgym-rl", "verl", "torch", "ray"} <= set(found)


# through the command


def started(folder, *overrides):
    """A run of the toy experiment that got as far as its first checkpoint."""
    config = recipes.load(["experiment=counter", *overrides])
    RunFolder(folder, recipes.identity(config), resume=True).save_state(STATE)


def command(*overrides):
    return CliRunner().invoke(app, ["train", "experiment=counter", *overrides], env={"COLUMNS": "150"})


@pytest.mark.slow
def test_train_refuses_the_folder_of_another_run(toy_recipes):
    started(toy_recipes)
    result = command("seed=1", "cloning.lr=0.5")
    assert result.exit_code == 2
    assert "another configuration (seed=0 there, 1 here; cloning.lr=1e-05 there, 0.5 here)" in result.stderr
    result = command("run.resume=false")
    assert result.exit_code == 2 and "already holds a run" in result.stderr
    assert (toy_recipes / "state.json").is_file() and not (toy_recipes / "summary.json").exists()


@pytest.mark.parametrize("key", ["rollout.playbook", "rollout.exemplars", "envs.counter.demonstrations_file"])
def test_a_file_that_has_changed_makes_another_run(toy_recipes, tmp_path, key):
    file = tmp_path / "named.json"
    file.write_text("before")
    started(toy_recipes, f"{key}={file}")
    file.write_text("after")
    before, after = (hashlib.sha256(text.encode()).hexdigest() for text in ("before", "after"))
    with pytest.raises(RunFolderError, match=f"named.json={before} there, {after} here"):
        started(toy_recipes, f"{key}={file}")


class Reached(Exception):
    """The run got as far as the cluster."""


@pytest.fixture
def no_cluster(monkeypatch):
    def cluster(*_):
        raise Reached

    monkeypatch.setattr("agentgym_rl.engine.verl.cluster.cluster", cluster)


@pytest.mark.slow
@pytest.mark.usefixtures("no_cluster")
def test_a_run_that_was_not_to_resume_can_be_resumed(toy_recipes):
    """``run.resume`` says what may happen to a folder and is no part of the run in it."""
    with pytest.raises(Reached):
        train(Resolved(recipes.load(["experiment=counter", "run.resume=false"])), Console(quiet=True))
    folder = RunFolder(toy_recipes, (toy_recipes / "identity.yaml").read_text(), resume=True)
    folder.save_state(replace(STATE, checkpoint=None, algorithm=None))
    with pytest.raises(Reached):
        train(Resolved(recipes.load(["experiment=counter"])), Console(quiet=True))


@pytest.mark.slow
@pytest.mark.usefixtures("no_cluster")
def test_what_a_run_prepares_is_prepared_once_and_alike(toy_recipes):
    files = ("demonstrations/counter.json", "model/model.safetensors", "model/tokenizer.json", "config.yaml")
    contents = []
    for _ in range(2):
        with pytest.raises(Reached):
            train(Resolved(recipes.load(["experiment=counter"])), Console(quiet=True))
        contents.append([(toy_recipes / file).read_bytes() for file in files])
        times = [(toy_recipes / file).stat().st_mtime_ns for file in files[:3]]
    assert contents[0] == contents[1]
    with pytest.raises(Reached):
        train(Resolved(recipes.load(["experiment=counter"])), Console(quiet=True))
    assert times == [(toy_recipes / file).stat().st_mtime_ns for file in files[:3]]
    with pytest.raises(Reached):
        train(Resolved(recipes.load(["experiment=counter", f"run.dir={toy_recipes}2"])), Console(quiet=True))
    other = toy_recipes.with_name(toy_recipes.name + "2")
    assert [(other / file).read_bytes() for file in files[:3]] == contents[0][:3]
    assert not (toy_recipes / "summary.json").exists() and not (toy_recipes / "state.json").exists()


@pytest.mark.slow
def test_a_finished_run_is_shown_again(toy_recipes):
    started(toy_recipes)
    score = {"success": 0.5, "ci95": [0.2, 0.8], "n": 4, "reward": 0.5, "turns": 2.0, "error_rate": 0.0}
    stage = {"name": "bc", "panels": {"test": {"counter": {"sampled": score, "greedy": score}}}}
    summary = {"name": "counter", "seed": 0, "stages": [stage], "reference": {}}
    folder = RunFolder(toy_recipes, (toy_recipes / "identity.yaml").read_text(), resume=True)
    folder.write_summary(summary)
    (toy_recipes / "metrics.jsonl").write_text(json.dumps({"step": 1, "run/episodes": 4}) + "\n")
    result = command()
    assert result.exit_code == 0, result.output
    assert "finished; choose another name or run.dir" in result.output
    assert "50.0 [20, 80]" in result.output
    assert (toy_recipes / "curves.png").is_file()


# the launch

SETTINGS = OmegaConf.create({"trainer": {"nnodes": 1, "n_gpus_per_node": 1, "device": "cpu"}})


def test_a_launch_that_hangs_is_given_up(monkeypatch):
    end, said = threading.Event(), []
    monkeypatch.setattr(launch, "_start", lambda config: end.wait(30))
    with pytest.raises(launch.LaunchFailed, match=r"not ready after 0\.2 s.*engine\.start_seconds"):
        launch.launch(SETTINGS, 0.2, said.append)
    end.set()
    assert said and "engine ready" not in said


def test_a_launch_that_fails_names_its_cause(monkeypatch):
    def fail(config):
        raise RuntimeError("ray::AgentWorker.init_model()\n  File x\nValueError: no such weights\n")

    monkeypatch.setattr(launch, "_start", fail)
    with pytest.raises(launch.LaunchFailed, match="did not start: RuntimeError: ValueError: no such weights") as caught:
        launch.launch(SETTINGS, 0.2, lambda text: None)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_launch_that_works(monkeypatch):
    monkeypatch.setattr(launch, "_start", lambda config: "trainer")
    said = []
    assert launch.launch(SETTINGS, 0.2, said.append) == "trainer"
    assert said[-1] == "engine ready"


# one process at a time

HOLD = """
import sys, time
from pathlib import Path
from agentgym_rl.engine.run import lock
from agentgym_rl.engine.run.lock import locked
with locked(Path(sys.argv[1])):
    print("in", flush=True)
    time.sleep(60)
"""


def hold(tmp_path, program=HOLD):
    """A process in the folder."""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "in\n"
        yield process
        process.kill()


holder = pytest.fixture(hold)


@pytest.fixture
def quick_holder(tmp_path):
    """One that renews its lease all the time."""
    yield from hold(tmp_path, HOLD.replace("with locked", "lock.RENEWED_SECONDS = 0.05\nwith locked"))


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_second_process_in_a_folder_is_refused_and_told_who_is_there(tmp_path, holder):
    with pytest.raises(RunFolderError, match=rf"is run already, by \S+ on \S+, process {holder.pid}, since"):
        locked(tmp_path).__enter__()
    holder.kill()
    holder.wait()
    with locked(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid(), "a killed process leaves no lock"
    assert (tmp_path / ".lock").read_text() == ""


ELSEWHERE = json.dumps({"owner": "me", "host": "elsewhere", "pid": 1, "started": "today"})
DAMAGED = ['{"owner": "me"', "[]", '{"pid": 1, "x": 2}', "\x00" * 50, "null"]


@pytest.mark.parametrize("content", [ELSEWHERE, *DAMAGED])
def test_a_lock_that_may_be_of_another_host_is_taken_over_when_its_lease_is_over(tmp_path, content):
    file = tmp_path / ".lock"
    file.write_text(content)
    who = "me on elsewhere, process 1, since today" if content is ELSEWHERE else "somebody on an unknown host"
    with pytest.raises(
        RunFolderError, match=rf"by {who}.*the folder is free in 1\d\d s, or when you delete .*/\.lock$"
    ):
        locked(tmp_path).__enter__()
    assert (lock.holder(tmp_path) or "").startswith(who)
    before = time.time() - lock.LEASE_SECONDS - 1
    os.utime(file, (before, before))
    assert content in DAMAGED[1:3] or lock.holder(tmp_path) is None
    with locked(tmp_path):
        assert json.loads(file.read_text())["pid"] == os.getpid()


def test_a_process_renews_its_lease(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "RENEWED_SECONDS", 0.02)
    with locked(tmp_path):
        os.utime(tmp_path / ".lock", (0, 0))
        wait_until(lambda: (tmp_path / ".lock").stat().st_mtime > 0)


def test_a_process_whose_lease_was_taken_over_ends(tmp_path, quick_holder):
    (tmp_path / ".lock").write_text(ELSEWHERE)
    _, said = quick_holder.communicate(timeout=30)
    assert quick_holder.returncode == 1 and "was taken over by me on elsewhere, process 1, since today" in said
    assert (tmp_path / ".lock").read_text() == ELSEWHERE


def test_a_user_without_a_name_is_a_number(tmp_path, monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    with locked(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["owner"] == str(os.getuid())
    assert account.variables(tmp_path)["USER"] == str(os.getuid())


def test_a_home_folder_that_cannot_be_written_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "HOME" not in account.variables(tmp_path / "run")
    monkeypatch.setenv("HOME", "/proc/nohome")
    assert account.variables(tmp_path / "run")["HOME"] == str(tmp_path / "run" / "home")
    assert (tmp_path / "run" / "home").is_dir()


def test_a_second_process_is_refused_though_the_lock_is_damaged(tmp_path, holder):
    (tmp_path / ".lock").write_bytes(b"\xff{")
    with pytest.raises(RunFolderError, match="is run already, by somebody on an unknown host, process unknown, since"):
        locked(tmp_path).__enter__()


def test_train_takes_the_lock_before_it_writes(toy_recipes):
    with locked(toy_recipes):
        result = CliRunner().invoke(app, ["train", "experiment=counter"])
    assert result.exit_code == 2 and "is run already" in result.stderr
    assert not (toy_recipes / "identity.yaml").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_asks_to_stop_and_a_second_one_stops(number):
    said = []
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), on_signals(Stop(said.append, 100.0)) as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop() and "saving" in said[0]
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_sigterm_before_the_engine_starts_ends_a_run_as_ctrl_c_does():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ended_as_by_ctrl_c():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    assert signal.getsignal(signal.SIGTERM) == before


def test_sigterm_while_the_engine_starts_is_not_rays_and_leaves_nothing(monkeypatch):
    agents = []

    def init(**_):
        ray._private.utils.set_sigterm_handler(lambda number, _: sys.exit(number))
        agents.append(subprocess.Popen(["sleep", "60"]))
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    monkeypatch.setattr("ray.init", init)
    with pytest.raises(KeyboardInterrupt), on_signals(stop := Stop(str, 100.0)), stop.at_once():
        _start(60.0, cluster.LOCAL)
    assert agents[0].wait(timeout=10) == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_scheduler_waits_for_a_step_no_longer_than_it_was_told(number):
    with pytest.raises(KeyboardInterrupt), on_signals(Stop(str, 0.1)):
        os.kill(os.getpid(), number)
        time.sleep(10)  # a step that takes too long


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_saving_may_take_its_time(number):
    with on_signals(Stop(str, 0.1)) as stop:
        os.kill(os.getpid(), number)
        assert stop()  # the step has ended in time
        time.sleep(0.3)


def test_a_run_ends_after_its_hours():
    said = []
    assert not Stop(said.append, 1.0, max_hours=1)()
    assert Stop(said.append, 1.0, max_hours=1e-12)() and said == ["run.max_hours=1e-12 are over: saving"]


def test_checkpoints_that_nothing_needs_are_removed(tmp_path):
    folder = RunFolder(tmp_path, "", resume=True)
    for step in range(1, 9):
        state = saved(folder, step)
        state.origin, state.stage_ends = "global_step_2", ["global_step_1", "global_step_2"]
        state.algorithm = folder.save_algorithm("agentevol", step, {"best": {"checkpoint": "global_step_4"}})
        folder.save_state(state)
        (folder.checkpoints / ".global_step_0").mkdir()
        folder.drop_leftovers(state, keep=1)
    names = sorted(path.name for path in folder.checkpoints.iterdir())
    assert names == [f"global_step_{step}" for step in (1, 2, 4, 7, 8)], "the state before goes back to 7"
    folder.drop_leftovers(state, keep=None)
    assert len(list(folder.checkpoints.iterdir())) == 5


# Ray


def test_ray_that_does_not_start_is_told_in_one_line(monkeypatch):
    tries = []

    def init(**options):
        tries.append(options)
        raise Exception("The current node timed out during startup. This could happen\nbecause")

    monkeypatch.setattr("ray.init", init)
    with pytest.raises(RayNotStarted, match=r"Ray did not start \(\d+ s\): The current node timed.*start_seconds=0"):
        _start(0.0, cluster.LOCAL)
    assert len(tries) == 1
    clock = iter([0.0, 31.0, 62.0, 93.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with pytest.raises(RayNotStarted, match=r"\(93 s\)"):
        _start(90.0, cluster.LOCAL)
    assert len(tries) == 1 + 3, "Ray's own limit is 30 s; it is started again while there is time"


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_starts_a_ray_of_its_own_where_another_one_is_named(monkeypatch):
    """And a second one with a token of its own: Ray keeps the first one's, or that there was none."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    for token in (None, "a" * 64, "b" * 64):
        if token is not None:
            monkeypatch.setenv("RAY_AUTH_TOKEN", token)
        _start(60.0, cluster.LOCAL, num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        try:
            assert ray.cluster_resources()["CPU"] == 1
        finally:
            ray.shutdown()
            cluster.forget_token()


def test_a_cluster_that_cannot_be_reached_is_not_tried_again(monkeypatch):
    def init(**options):
        raise ConnectionError("nobody there")

    monkeypatch.setattr("ray.init", init)
    says = r"engine\.ray_address=10\.0\.0\.1:6379 cannot be reached.*nobody there.*token is missing or another one"
    with pytest.raises(RayNotStarted, match=says):
        _start(90.0, address="10.0.0.1:6379")


@pytest.mark.slow
def test_what_python_finds_at_the_end_is_in_the_engines_log(tmp_path):
    """A coroutine of the queue that still waits when the process exits; Python complains about it then."""
    script = """
import asyncio, sys
from pathlib import Path
from agentgym_rl.engine.run.train import _engine_log

class Left:
    def __del__(self):
        raise ValueError("left behind")

with _engine_log(Path(sys.argv[1])):
    print("of verl")
kept = Left()
print("the end", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "log"], capture_output=True, text=True, check=True)
    assert done.stderr == "the end\n"
    log = (tmp_path / "log").read_text()
    assert "of verl" in log and "left behind" in log


VLLM_SAYS = """\x1b[0;36m(EngineCore pid=7)\x1b[0;0m ERROR 11-26 09:00:01 [core.py:1] EngineCore failed to start.
(EngineCore pid=7) ERROR 11-26 09:00:01 [core.py:1]   File "flashinfer.py", line 3, in <module>
(Worker_TP0 pid=8) ERROR 11-26 09:00:01 [multiproc.py:1] ModuleNotFoundError: No module named 'flashinfer'
(EngineCore pid=7) ERROR 11-26 09:00:01 [core.py:1] Exception: WorkerProc initialization failed due to an exception.
Traceback (most recent call last):
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


@pytest.mark.parametrize("error", [
    "Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    "EngineCore encountered an issue. See stack trace (above) for the root cause.",
])  # fmt: skip
def test_a_launch_that_fails_in_a_process_of_vllm_quotes_it(monkeypatch, tmp_path, error):
    def fail(config):
        raise RuntimeError(error)

    monkeypatch.setattr(launch, "_start", fail)
    monkeypatch.setattr(launch.ray_logs, "folder", lambda: tmp_path)
    (tmp_path / "worker-1.err").write_text("ValueError: of another matter\n")
    with pytest.raises(launch.LaunchFailed, match=f"root cause.*; it may be in {tmp_path}"):
        launch.launch(SETTINGS, 5, lambda text: None)
    (tmp_path / "worker-2.err").write_text(VLLM_SAYS)
    says = rf"did not start: ModuleNotFoundError: No module named 'flashinfer' \({tmp_path}/worker-2\.err\)"
    with pytest.raises(launch.LaunchFailed, match=says):
        launch.launch(SETTINGS, 5, lambda text: None)
    monkeypatch.setattr(launch.ray_logs, "folder", lambda: None)
    with pytest.raises(launch.LaunchFailed, match="it is in Ray's logs of the vLLM server, on its node"):
        launch.launch(SETTINGS, 5, lambda text: None)


def test_a_signal_during_the_launch_ends_it_at_once():
    said = []
    stop = Stop(said.append, 600)
    with pytest.raises(KeyboardInterrupt), stop.at_once():
        stop.handle(signal.SIGINT, None)
    assert not said and not stop()
    stop.handle(signal.SIGINT, None)
    assert stop(), "a unit finishes first"


@pytest.mark.parametrize(("difference", "told"), [(0.071, True), (0.051, False), (None, False)])
def test_probabilities_that_differ_are_told(difference, told):
    found = doubt({} if difference is None else {"sync/log_prob_difference": difference})
    assert (found is not None) is told
    assert not told or ("differ by 0.071 nats a token" in found and "more than 0.06" in found)
