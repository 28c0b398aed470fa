"""The real engine: Ray, FSDP2 and vLLM, launched as a user launches them. Selected with ``-m e2e``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from words import once

from agentgym_rl.data import episode_store

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

COMMAND = [str(Path(sys.executable).parent / "agentgym-rl"), "train", "experiment=smoke", "logger.wandb=offline"]


def train(folder: Path, *overrides: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        once(*COMMAND, f"run.dir={folder}", *overrides), capture_output=True, text=True, timeout=800, check=False
    )
    if check:
        log = folder / "engine.log"
        tail = log.read_text()[-4000:] if log.is_file() else ""
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}\n{tail}"
    return done


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


EASY = ("+env=maze", "envs.maze.difficulty=[steps 1-4]", "envs.maze.demonstrations=48", "envs.maze.panels.test.n=8",
        "envs.maze.max_turns=8", "envs.textcraft.share=0", "envs.textcraft.demonstrations=0", "cloning.epochs=10",
        "cloning.mini_batch_trajectories=2", "cloning.lr=4e-3", "algorithm.tasks_per_step=8",
        "algorithm.steps=2")  # fmt: skip
"""Short mazes, which a model solves now and then as soon as it knows the words, so that there is something to learn."""


def sweep(place: Path, *overrides: str) -> str:
    """Run the jobs of a sweep with their folders in a place of their own; returns what it printed."""
    done = subprocess.run(
        once(COMMAND[0], "train", "-m", *COMMAND[2:], *EASY, "run.dir=runs/${name}", *overrides),
        capture_output=True, text=True, timeout=800, check=False, cwd=place,
    )  # fmt: skip
    logs = "".join(log.read_text()[-3000:] for log in place.glob("runs/*/engine.log"))
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}\n{logs}"
    return done.stdout


def check_run(folder: Path, stages: list[str]) -> list[dict[str, Any]]:
    """What every finished run leaves behind; returns its metrics."""
    found = summary(folder)
    assert [stage["name"] for stage in found["stages"]] == stages
    assert {"verl", "torch", "ray"} <= set(found["versions"])
    for stage in found["stages"]:
        for decoding in ("sampled", "greedy"):
            result = stage["panels"]["test"]["maze"][decoding]
            assert (result["n"], result["error_rate"]) == (8, 0)
            assert 0 <= result["ci95"][0] <= result["success"] <= result["ci95"][1] <= 1
    for name in ("curves.png", "config.yaml", "state.json"):
        assert (folder / name).stat().st_size > 0
    assert list((folder / "wandb").glob("offline-run-*/run-*.wandb"))
    return metrics(folder)


def check_policy_steps(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Two steps through verl's policy loss; sampling and training agree on what was sampled."""
    trained = [row for row in rows if "actor/pg_loss" in row]
    assert len(trained) == 2
    assert all(row["training/rollout_probs_diff_max"] < 5e-3 for row in trained)
    assert all(row["actor/grad_norm"] >= 0 for row in trained)
    return trained


@pytest.mark.usefixtures("example_packages")
@pytest.mark.parametrize(
    "words",
    [
        ["agentevol", "grpo", "dpo"],
        pytest.param(
            ["exit", "reinforce_pp", "gigpo", "distill", "late_turns", "prefer_then_imitate"], marks=pytest.mark.slow
        ),
    ],
    ids="-".join,
)
def test_algorithms_without_a_critic_share_one_engine(tmp_path: Path, words: list[str]) -> None:
    out = sweep(tmp_path, f"algorithm={','.join(words)}", "run.evaluate_untrained=false", "run.control=true",
                "cloning.observation_weight=0.5", "algorithm.epochs=2", "mixture=dynamic")  # fmt: skip
    assert out.count("engine ready") == 1
    assert out.count("the engine runs already") == len(words) - 1
    assert out.count(f"cloned weights of smoke-{words[0]}-seed0 taken") == len(words) - 1
    bc: list[dict[str, Any]] = []
    for word in words:
        folder = tmp_path / "runs" / f"smoke-{word}-seed0"
        rows = check_run(folder, ["bc", word, "control"])
        bc.append(summary(folder)["stages"][0]["panels"])
        if word in ("grpo", "exit", "reinforce_pp", "gigpo"):
            trained = check_policy_steps(rows)
            assert all(row["env/maze/share"] == 1 for row in trained)
            assert sum(row["actor/grad_norm"] for row in trained) > 0
            episodes = episode_store.read(folder / "episodes" / "step000011.parquet")
            assert len(episodes) == 32
            assert all(episode.ending.counts and episode.response_tokens > 0 for episode in episodes)
        if word == "gigpo":
            assert all(row["credit/step_groups"] > 0 for row in trained)
        if word == "exit":
            assert [row["restarts/diverged_replays"] for row in trained] == [0, 0]
            assert trained[0]["restarts/groups"] == 0 < trained[1]["restarts/groups"]
            second = episode_store.read(folder / "episodes" / "step000012.parquet")
            assert sum(episode.prefix_turns > 0 for episode in second) > 0
        if word == "dpo":
            pairs = [row for row in rows if row.get("dpo/pairs")]
            assert pairs and all(row["dpo/loss"] < 0.7 and row["dpo/updates"] >= 1 for row in pairs)
        if word == "late_turns":
            assert sum("late_turns/successes" in row for row in rows) == 2
        if word == "prefer_then_imitate":
            units = [row for row in rows if f"stage/{word}" in row and "run/episodes" in row]
            assert sum("prefer/pairs" in row for row in units) == 2
            assert sum("supervised/loss" in row for row in units) == 2
        if word == "agentevol":
            explored = [row for row in rows if "agentevol/explore_s" in row]
            assert [row["agentevol/maze/explored"] for row in explored] == [32, 32]
            assert sum(row["agentevol/kept"] for row in explored) > 0
            # each round starts from random weights, and its loss is high again
            losses = [row["supervised/loss"] for row in rows if "stage/agentevol" in row and "supervised/loss" in row]
            assert losses[1] < losses[0] and losses[1] < losses[2] and losses[3] < losses[2]
            assert list((folder / "successes").glob("maze_round*.json"))
    assert all(result == bc[0] for result in bc), "cloned once"
    if "agentevol" in words:
        check_export(tmp_path / "runs" / "smoke-agentevol-seed0", tmp_path / "exported")


def check_export(run: Path, out: Path) -> None:
    """Exported weights on a vLLM of their own play as the run did when it had cloned them."""
    for words in (
        ["export", f"{run}:bc", "--out", str(out)],
        ["eval", f"panel={run}:test", f"policy={out}", f"out={out}/evaluated"],
    ):
        done = subprocess.run([COMMAND[0], *words], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    played = json.loads((out / "evaluated" / "result.json").read_text())
    assert played["plan"]["backend"] == "vllm"
    greedy = summary(run)["stages"][0]["panels"]["test"]["maze"]["greedy"]
    assert played["envs"]["maze"]["success"]["value"] == greedy["success"]

    def replies(file: Path) -> dict[str, list[str]]:
        found = [episode for episode in episode_store.read(file) if episode.tags.get("decoding", "greedy") == "greedy"]
        return {
            episode.item_id: [turn.response for turn in episode.turns] for episode in found if episode.env == "maze"
        }

    before = replies(next((run / "episodes").glob("val_bc_step*.parquet")))
    after = replies(out / "evaluated" / "episodes" / "evaluation.parquet")
    assert len({reply for replies in after.values() for reply in replies}) > 2
    same = sum(before[item] == after[item] for item in after)
    assert len(after) == 8 and same >= 7, "one of them may meet two tokens that are equally likely"


def test_ppo_with_a_critic_over_tokens_and_over_turns(tmp_path: Path) -> None:
    sweep(tmp_path, "algorithm=ppo", "algorithm.level=token,turn", "name=ppo-${algorithm.level}",
          "algorithm.samples_per_task=2", "algorithm.lr=2e-4", "algorithm.critic_warmup=1")  # fmt: skip
    for level in ("token", "turn"):
        rows = check_run(tmp_path / "runs" / f"ppo-{level}", ["untrained", "bc", "ppo"])
        steps = [row for row in rows if "critic/vf_loss" in row]
        assert len(steps) == 2
        assert all(row["critic/vf_loss"] >= 0 and row["critic/grad_norm"] > 0 for row in steps)
        assert ["actor/pg_loss" in row for row in steps] == [False, True], "the critic warms up alone"


@pytest.mark.slow
def test_episodes_of_more_tokens_than_the_context(tmp_path: Path) -> None:
    """Mazes of 12 turns in a response of 160 tokens; notes are asked for, learned from and shown again."""
    words = ["rloo", "gigpo", "agentevol"]
    sweep(tmp_path, f"algorithm={','.join(words)}", "run.evaluate_untrained=false", "rollout.context=summary",
          "rollout.notes_tokens=16", "rollout.keep_turns=1", "rollout.invalid_limit=null", "model.response_tokens=160",
          "envs.maze.max_turns=12", "envs.maze.difficulty=[steps 5-8]",
          "envs.maze.demonstrations=16", "cloning.epochs=4")  # fmt: skip
    for word in words:
        folder = tmp_path / "runs" / f"smoke-{word}-seed0"
        rows = check_run(folder, ["bc", word])
        names = sorted({file.name.partition(".")[0] for file in (folder / "episodes").iterdir()})
        played = [episode for name in names for episode in episode_store.read(folder / "episodes" / f"{name}.parquet")]
        longest = max(played, key=lambda episode: episode.response_tokens)
        assert longest.segments > 1 and longest.response_tokens > 160
        assert any(turn.notes for episode in played for turn in episode.turns)
        if word == "agentevol":
            continue
        for row in check_policy_steps(rows):
            assert row["rollout/segments_per_episode"] > 1
            assert row["rollout/staleness"] == row["rollout/singleton_episodes"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "stragglers"), [("colocate_async", "wait"), ("separate_async", "partial")])
def test_playing_while_learning(tmp_path: Path, mode: str, stragglers: str) -> None:
    sweep(tmp_path, "algorithm=grpo", f"engine.mode={mode}", f"engine.stragglers={stragglers}",
          "run.evaluate_untrained=false", "algorithm.steps=4",
          "mixture=dynamic", "curriculum=stepwise", "curriculum.rounds=[4,8]", "curriculum.steps=2")  # fmt: skip
    folder = tmp_path / "runs" / "smoke-grpo-seed0"
    trained = [row for row in check_run(folder, ["bc", "grpo"]) if "actor/pg_loss" in row]
    assert len(trained) == 4
    # the first batch is played with the weights that learn from it; later ones may be begun a step or two before
    stale = [row["rollout/staleness"] for row in trained]
    most = 1 if stragglers == "wait" else 2
    assert stale[0] == 0 < max(stale) and all(row["rollout/staleness_max"] <= most for row in trained)
    assert all(0 < row["rollout_corr/rollout_is_mean"] <= 2 for row in trained)
    assert [row["curriculum/max_turns"] for row in trained] == [4, 4, 8, 8]
    assert trained[-1]["run/episodes"] == 4 * 8 * 4
    (stage,) = (
        stage for stage in json.loads((folder / "summary.json").read_text())["stages"] if stage["name"] == "grpo"
    )
    assert trained[-1]["run/stage_updates"] == stage["updates"] > 0


@pytest.mark.slow
def test_tasks_that_do_not_fit_into_the_prompt_are_counted_named_and_left_out(tmp_path: Path) -> None:
    """One training task in twenty; of a large pool, those that were not measured before are found out in a round."""
    folder = tmp_path / "run"
    done = train(folder, "algorithm=agentevol", "model.prompt_tokens=194", "envs.textcraft.options={max_depth: 1}",
                 "algorithm.tasks_per_step=96", "algorithm.samples_per_task=1", "algorithm.steps=2", "run.cache=null",
                 "envs.textcraft.panels.new_variants.seed=4")  # fmt: skip
    found = summary(folder)
    assert "instruction and first observation of" in done.stdout and "are left out" in done.stdout
    names = dict.fromkeys(file.name.partition(".")[0] for file in (folder / "episodes").glob("step*"))
    played = [episode for name in names for episode in episode_store.read(folder / "episodes" / f"{name}.parquet")]
    assert len(played) == 2 * 96, "as many as were asked for"
    lost = [episode.item_id for episode in played if episode.ending.value == "prompt_limit"]
    assert found["errors"].get("prompt_limit", 0) == len(lost) and len(lost) == len(set(lost))
    assert set(lost) <= set(found["left_out"]) and len(found["left_out"]) > len(lost)


ADAPTERS = ("cloning.epochs=1", "cloning.mini_batch_trajectories=8", "model.lora_rank=4",
            "engine.verify_sync=always", "run.evaluate_untrained=false")  # fmt: skip


@pytest.mark.slow
def test_adapters_reach_the_sampler_and_the_exported_model(tmp_path: Path) -> None:
    sweep(tmp_path, "algorithm=agentevol,grpo", *ADAPTERS)
    run = tmp_path / "runs" / "smoke-grpo-seed0"
    for row in check_policy_steps(check_run(run, ["bc", "grpo"])):
        assert row["sync/log_prob_difference"] < 1e-4 < row["sync/log_prob_moved"]
    check_run(tmp_path / "runs" / "smoke-agentevol-seed0", ["bc", "agentevol"])
    for words in ([], ["--adapter"]):
        out = tmp_path / ("adapter" if words else "merged")
        subprocess.run([COMMAND[0], "export", str(run), "--out", str(out), *words], check=True, timeout=200)
    base = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["base_model_name_or_path"]
    code = (
        "import sys, torch\nfrom transformers import AutoModelForCausalLM\nids = torch.arange(40)[None]\n"
        "with torch.no_grad():\n"
        "    base, merged, adapter = ("
        "AutoModelForCausalLM.from_pretrained(one)(ids).logits.log_softmax(-1) for one in sys.argv[1:])\n"
        "assert (merged - adapter).abs().max() < 1e-4 < (merged - base).abs().mean()"
    )
    subprocess.run([sys.executable, "-c", code, base, *map(str, (tmp_path / "merged", out))], check=True, timeout=200)


@pytest.mark.slow
def test_a_pretrained_model_learns(tmp_path: Path) -> None:
    """SmolLM2 (downloads 93 MB), the half of its layers: cloning, and a round of AgentEvol."""
    panels = ("textcraft.panels.unseen_goals", "textcraft.panels.validation",
              "maze.panels.new_mazes", "maze.panels.validation")  # fmt: skip
    folder = tmp_path / "run"
    train(folder, "experiment=smollm2", "model.train_layers=15", "envs.textcraft.demonstrations=9",
          "envs.maze.demonstrations=3", "cloning.epochs=2", "algorithm.steps=1", "algorithm.tasks_per_step=4",
          "run.control=false", f"run.cache={tmp_path}/cloned", *(f"envs.{panel}.n=2" for panel in panels))  # fmt: skip
    found = summary(folder)
    assert [stage["name"] for stage in found["stages"]] == ["bc", "agentevol"]
    first, second = (row for row in metrics(folder) if "stage/bc" in row and "supervised/loss" in row)
    assert second["supervised/loss"] < first["supervised/loss"]
    assert found["stages"][-1]["panels"]["unseen_goals"]["textcraft"]["sampled"]["n"] == 4


@pytest.mark.slow
@pytest.mark.usefixtures("chromium")
def test_the_web_is_learned_from(tmp_path: Path) -> None:
    """A shop as text, and pages and sites in a browser: cloning of oracle trajectories, a step of GRPO, evaluations."""
    names = ("webshop", "miniwob", "webarena")
    recipes = tmp_path / "recipes" / "env"
    recipes.mkdir(parents=True)
    (recipes / "web.yaml").write_text(f"# @package envs\ndefaults: [{', '.join(names)}]\n")
    few = [f"envs.{name}.{key}" for name in names for key in ("demonstrations=4", "panels.test.n=2", "max_turns=10")]
    folder = tmp_path / "run"
    train(folder, "--recipes", str(recipes.parent), "+env=web", *few, "envs.textcraft.share=0",
          "envs.textcraft.demonstrations=0", "envs.textcraft.panels.new_variants.n=1", "algorithm=grpo",
          "algorithm.steps=1", "algorithm.tasks_per_step=6", "algorithm.samples_per_task=2",
          "algorithm.mini_batch_tasks=6", "envs.miniwob.options.pages=click-test",
          "envs.webarena.difficulty=['shopping: price']", "model.prompt_tokens=1024", "model.response_tokens=4000",
          "engine.micro_tokens=5120", "run.evaluate_untrained=false")  # fmt: skip
    (row,) = (row for row in metrics(folder) if "actor/pg_loss" in row)
    assert row["training/rollout_probs_diff_max"] < 5e-3
    assert {name: row[f"env/{name}/share"] for name in names} == dict.fromkeys(names, pytest.approx(1 / 3))
    for stage in summary(folder)["stages"]:
        for name in names:
            result = stage["panels"]["test"][name]["greedy"]
            assert (result["n"], result["error_rate"]) == (2, 0)


NO_SYNC_AFTER_STEP_3 = """
from agentgym_rl.cli import main
from agentgym_rl.engine.verl.weights import PausedServers
send = PausedServers.send

def send_or_wake(servers, step):
    if step <= 3:
        send(servers, step)
    else:
        servers.manager.wake_up_replicas()
        servers.manager.resume_generation_replicas()

PausedServers.send = send_or_wake
main()
"""


@pytest.mark.slow
def test_a_sync_that_sends_nothing_ends_the_run(tmp_path: Path) -> None:
    """While rollouts go on: what cloning and two steps of GRPO send arrives, what the control sends does not."""
    words = once(*COMMAND[1:], *EASY, *ADAPTERS, f"run.dir={tmp_path}/run", "run.cache=null",
                 "engine.mode=colocate_async", "algorithm=grpo", "algorithm.lr=1e-2", "run.control=true")  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", NO_SYNC_AFTER_STEP_3, *words], capture_output=True, text=True, timeout=800, check=False
    )
    rows = metrics(tmp_path / "run")
    assert [row["step"] for row in rows if "sync/log_prob_difference" in row] == [2, 3]
    assert done.returncode == 1 and "does not have the weights that learn" in done.stdout, done.stdout[-4000:]


@pytest.mark.slow
def test_a_killed_exploration_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    overrides = (*EASY, "algorithm=agentevol", "algorithm.tasks_per_step=400", "algorithm.samples_per_task=2",
                 "algorithm.steps=1", "run.evaluate_untrained=false", "algorithm.search.calls=8")  # fmt: skip
    process = started(folder, *overrides)
    journal = folder / "exploring" / "step000011.jsonl"
    deadline = time.monotonic() + 400
    while not (journal.is_file() and len(journal.read_text().splitlines()) >= 64):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    for pid in processes_of(process.pid):
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    kept = len(journal.read_text().splitlines()) - 1  # the last line may be torn

    out = train(folder, *overrides).stdout
    found = re.search(r"round 1: explore: (\d+) episodes are kept from before the stop", out)
    assert found and kept <= int(found[1]) < 800
    row = next(row for row in metrics(folder) if "agentevol/explore_s" in row)
    searched = row["search/branches"]
    assert row["search/tasks"] > 0 and searched > 0 and row["search/dropped"] == 0
    assert row["agentevol/maze/explored"] == 800 + searched
    episodes = episode_store.read(folder / "episodes" / "step000011.parquet")
    assert len({episode.tags["index"] for episode in episodes}) == len(episodes) == 800 + searched
    assert list((folder / "exploring").iterdir()) == []


def started(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        once(*COMMAND, f"run.dir={folder}", *overrides),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for_step(folder: Path, step: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        file = folder / "metrics.jsonl"
        if file.is_file() and any(json.loads(line)["step"] >= step for line in file.read_text().splitlines()):
            return
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        time.sleep(0.3)
    pytest.fail(f"step {step} was not reached")


def processes_of(session: int) -> list[int]:
    """Live processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def test_interrupted_and_killed_runs_resume(tmp_path: Path) -> None:
    folder = tmp_path / "resumed"
    overrides = ("algorithm=grpo", "algorithm.steps=10", "run.save_every=1", "run.evaluate_untrained=false")

    # Ctrl-C, which goes to all processes: the step is finished, saved, and everything ends
    process = started(folder, *overrides)
    wait_for_step(folder, 2, process)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130, out
    assert "the same command resumes" in out
    state = json.loads((folder / "state.json").read_text())
    assert (folder / "checkpoints" / state["checkpoint"]).is_dir()
    assert 1 < state["global_step"] < 8
    time.sleep(3)
    assert processes_of(process.pid) == []

    # a kill: what was after the last checkpoint is done again
    process = started(folder, *overrides)
    wait_for_step(folder, state["global_step"] + 2, process)
    for pid in processes_of(process.pid):
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)

    train(folder, *overrides)
    steps = [row["step"] for row in metrics(folder) if "actor/pg_loss" in row]
    assert steps == [*range(2, 12)]
    assert [stage["name"] for stage in summary(folder)["stages"]] == ["bc", "grpo"]
    assert summary(folder)["stages"][-1]["steps"] == 10


@pytest.mark.slow
def test_a_signal_while_the_engine_starts_ends_it_at_once(tmp_path: Path) -> None:
    """A scheduler's SIGTERM; then Ctrl-C, in the folder that was left, where the engine has started again."""
    folder = tmp_path / "ended"
    for send, number in ((os.kill, signal.SIGTERM), (os.killpg, signal.SIGINT)):
        process = started(folder, "algorithm=grpo")
        deadline = time.monotonic() + 250
        while not any(b"ray::" in command_of(pid) for pid in processes_of(process.pid)):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.3)
        send(process.pid, number)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 130, out
        assert "stopped at once" in out and "the same command resumes" in out and "Traceback" not in out
        time.sleep(3)
        assert processes_of(process.pid) == []
    assert metrics(folder) == []


@pytest.mark.slow
def test_a_worker_that_dies_during_start_up_ends_the_run_with_its_own_error(tmp_path: Path) -> None:
    folder = tmp_path / "dies"
    begun = time.monotonic()
    done = train(folder, "+verl.actor_rollout_ref.actor.optim.optimizer=NoSuchOptimizer", check=False)
    assert done.returncode == 1
    assert "NoSuchOptimizer" in done.stdout
    assert time.monotonic() - begun < 200


@pytest.mark.slow
def test_verls_own_entry_point_trains_in_our_worlds(tmp_path: Path) -> None:
    """The command of docs/verl.md, on the tiny model."""
    prepared = tmp_path / "prepared"
    code = (
        "import asyncio, sys; from pathlib import Path; from agentgym_rl.engine.recipe.compose import load\n"
        "from agentgym_rl.engine.recipe.resolved import Resolved; from agentgym_rl.engine.run import tiny\n"
        "config = load(['experiment=smoke', 'algorithm=grpo'])\n"
        "tiny.build(Path(sys.argv[1]), config.model, asyncio.run(tiny.corpus(Resolved(config))), 0)"
    )
    subprocess.run([sys.executable, "-c", code, str(prepared)], check=True, capture_output=True)
    page = Path(__file__).parents[2] / "docs" / "verl.md"
    block = page.read_text().split("```bash")[1].split("```")[0]
    script = block.replace("MODEL_FOLDER", str(prepared)).replace("OUTPUT_FOLDER", str(tmp_path / "out"))
    process = subprocess.Popen(
        ["bash", "-euc", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    try:
        out, _ = process.communicate(timeout=800)
    finally:
        for pid in processes_of(process.pid):
            os.kill(pid, signal.SIGKILL)
    assert process.returncode == 0, out[-6000:]
    assert "val-core/textcraft" in out
    assert "Final validation metrics" in out


DOWN = """
import sys

if any("default_worker.py" in word for word in sys.orig_argv):
    from agentgym_rl.envs.core import EnvUnavailable
    from agentgym_rl.envs.maze import Maze

    async def reset(self, task):
        raise EnvUnavailable("the server of maze is down")

    Maze.reset = reset
"""
"""Executed by every Python process as it starts: in Ray's workers, where episodes run, the maze is down."""


@pytest.mark.slow
def test_an_environment_that_is_down_in_training_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(DOWN)
    paths = filter(None, [str(tmp_path / "site"), os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    maze = "+envs={maze: {split: train_variants, demonstrations: 8}}"
    done = train(tmp_path / "run", "algorithm=grpo", "run.cache=null", maze, check=False)
    assert done.returncode == 2
    assert re.search(r"only 0 of \d+ episodes of maze count \(run.min_counted_training=0.5\)", done.stderr)
    assert "the server of maze is down" in done.stderr
    assert not any(name.startswith("env/maze/") for row in metrics(tmp_path / "run") for name in row)
