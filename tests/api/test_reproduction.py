"""Published results run again, with commands that write what real ones would."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("verl")

from agentgym_rl.api import reproduction
from agentgym_rl.api.published import PROTOCOLS, TARGETS, find
from agentgym_rl.api.reproduction import Reproduction
from agentgym_rl.cli import app
from agentgym_rl.eval.evaluation.result import Result
from agentgym_rl.eval.evaluation.scores import Outcome

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import reproduction_page as pages  # noqa: E402

NAME, TEXTCRAFT = "verl_agent_alfworld_gigpo_1.5b", "textcraft_scaling_inter_stepwise"


def words_of(command):
    return dict(word.split("=", 1) for word in command if "=" in word)


def trained(folder, config, git="c0ffee"):
    folder.mkdir(parents=True)
    versions = {"git": git} if git else {}
    stages = [{"name": "bc", "wall_s": 1800.0}, {"name": "gigpo", "wall_s": 5400.0}]
    (folder / "summary.json").write_text(json.dumps({"stages": stages, "versions": versions, "code": "abc"}))
    (folder / "state.json").write_text(json.dumps({"episodes": 100, "tokens": 5000}))
    (folder / "config.yaml").write_text(json.dumps({"engine": config}))


def evaluated(folder, env, solved, tasks=4, reward=None):
    plan = {"panel": {"digest": "d1", "envs": {env: {"digest": "d1"}}}, "samples": 1, "seed": 0}
    outcomes = [
        Outcome(f"{env}_{at}", "all", (at < solved,), (float(at < solved) if reward is None else reward,), (3,))
        for at in range(tasks)
    ]
    Result(plan, tuple(outcomes), (), {}).write(folder)


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Stands for the commands; returns those that were run."""
    monkeypatch.chdir(tmp_path)
    ran = []

    def run(words, quiet):
        command, settings = words[3], words_of(words[3:])
        ran.append(command)
        if command == "train":
            engine = {"device": "cuda", "workers": 2, "nodes": 1, "rollout_workers": 1, "mode": "sync"}
            for seed in settings["seed"].split(","):
                trained(Path("runs") / settings["name"].replace("${seed}", seed), engine)
        else:
            evaluated(Path(settings["out"]), "alfworld", solved=2 + int(settings["seed"]))

    monkeypatch.setattr(reproduction, "run_command", run)
    monkeypatch.setattr(Reproduction, "check", lambda self: None)
    return ran


def run(*words):
    return CliRunner().invoke(app, ["reproduce", *words], env={"COLUMNS": "200"})


@pytest.mark.slow
def test_a_reproduction_ends_with_a_table_and_a_file(commands, tmp_path):
    command = run(NAME, "seed=0,1")
    assert command.exit_code == 0 and commands == ["train", "eval", "eval"]
    result = json.loads((tmp_path / "reproductions" / NAME / "result.json").read_text())
    (line,) = result["lines"]
    # 50% and 75%: mean 62.5, sd 17.7, half width 12.706 * 12.5, cut at 0 and 100
    assert (line["published"], line["ours"], line["interval"], line["over"]) == (
        86.7,
        62.5,
        [0.0, 100.0],
        "seeds and tasks",
    )
    assert line["by_seed"] == {"0": 50.0, "1": 75.0} and line["weights"] == "last"
    # two runs of two hours on two GPUs
    assert result["cost"] == {"gpu_hours": 8.0, "cpu_hours": 0.0, "episodes": 200, "tokens": 10_000}
    assert (result["commits"], result["code"], result["panels"]) == (["c0ffee"], ["abc"], {"alfworld": "d1"})
    assert (result["source"], result["published_seeds"], result["changed"]) == ("arXiv 2505.10978", "one run", [])
    assert "-24.2 [-86.7, +13.3]" in command.stdout and "8.0 GPU hours, 200 episodes, 10,000 tokens" in command.stdout
    assert "commit: c0ffee; code abc" in command.stdout and "not the published settings" not in command.stdout


def test_one_seed_has_the_interval_of_its_tasks(commands):
    (line,) = reproduction.reproduce(NAME, "seed=0").lines
    assert (line.ours, line.over) == (50.0, "tasks") and line.interval == pytest.approx((15.0, 85.0), abs=0.1)
    assert line.difference == pytest.approx((-36.7, 15.0 - 86.7, 85.0 - 86.7), abs=0.1)


def test_settings_that_depart_are_told(commands, tmp_path, monkeypatch):
    assert "not the published settings: algorithm.lr=1e-05" in run(NAME, "algorithm.lr=1e-5", "seed=0").stdout
    file = tmp_path / "reproductions" / NAME / "result.json"
    published, other = tmp_path / "published.json", tmp_path / "other.json"
    published.write_text(json.dumps({"name": NAME, "changed": [], "lines": []}))
    other.write_text("{}")
    monkeypatch.setattr(pages, "KEPT", tmp_path / "kept")
    with pytest.raises(ValueError, match=r"algorithm\.lr=1e-05"):
        pages.keep([published, file])
    with pytest.raises(ValueError, match=r"other\.json is no result"):
        pages.keep([published, other])
    assert pages.kept() == {}, "all or none"


def test_settings_of_the_environment_are_told(monkeypatch):
    monkeypatch.setenv("AGENTGYM_RL_OVERRIDES", "algorithm.lr=1e-5 run.dir=elsewhere")
    reproduction = Reproduction.of(NAME, ["seed=0"])
    assert reproduction.changed == ("algorithm.lr=1e-05",) and reproduction.runs == {0: Path("elsewhere")}


def test_a_seed_that_is_named_twice_is_told():
    command = run(NAME, "seed=0,1,0", "--show")
    assert command.exit_code == 2 and "seed=0,1,0 has a seed twice" in command.stderr


def test_where_it_runs_is_no_setting():
    reproduction = Reproduction.of(
        "agentevol_bc", ["envs.webshop.host.address=http://127.0.0.1:36001", "engine.offload=true"]
    )
    assert reproduction.changed == ()


def test_rewards_are_compared_where_they_are_published(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reproduction = Reproduction.of("agentevol_agentevol", ["seed=0"])
    engine = {"device": "cpu", "workers": 1, "nodes": 1, "rollout_workers": 1, "mode": "sync"}
    trained(Path("runs/agentevol_agentevol-seed0"), engine, git=None)
    evaluated(reproduction.out / "last" / "seed0", "sciworld", solved=0, reward=0.25)
    result = reproduction.result()
    (line,) = result.lines
    assert (line.env, line.measure, line.published, line.ours) == ("sciworld", "reward", 38.0, 25.0)
    assert (result.cost.cpu_hours, result.commits) == (2.0, ())


def test_the_published_checkpoint_is_evaluated_before_the_last():
    shown = [shlex.split(line) for line in run(TEXTCRAFT, "--show").stdout.splitlines()]
    assert [words[1] for words in shown] == ["train", "eval", "eval"]
    first, last = map(words_of, shown[1:])
    assert first["policy"] == f"runs/{TEXTCRAFT}-seed0/checkpoints/global_step_150"
    assert last["policy"] == f"runs/{TEXTCRAFT}-seed0" and first["out"] != last["out"]
    assert (first["max_turns"], first["response_tokens"], first["temperature"]) == ("30", "14098", "1.0")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("algorithm.steps=100", "algorithm.steps=100 ends before step 150, which the published number is of"),
        ("run.save_every=20", "run.save_every=20 saves no step 150"),
        ("run.keep_checkpoints=3", "run.keep_checkpoints=3 deletes step 150"),
    ],
)
def test_a_published_checkpoint_that_would_be_missing_is_told_before_training(change, says):
    command = run(TEXTCRAFT, change, "--show")
    assert command.exit_code == 2 and says in command.stderr
    assert run(TEXTCRAFT, "algorithm.steps=150", "run.save_every=0", "--show").exit_code == 0


def test_the_page_shows_the_published_checkpoint():
    def line(weights, ours):
        return {"env": "textcraft", "weights": weights, "ours": ours, "interval": [80.0, 99.0], "by_seed": {"0": ours}}

    published = {TEXTCRAFT: {"lines": [line("global_step_150", 90.0), line("last", 95.0)]}}
    assert "|91; ours 90.0 [80, 99], seeds 0|" in pages.page(pages.PAGE.read_text(), published)


def test_what_is_missing_here_is_named_in_one_line():
    command = run(NAME)
    assert command.exit_code == 2 and "needs 2 GPUs" in command.stderr and command.stderr.count("\n") == 1
    command = run(NAME, "engine=cpu", "engine.workers=1", "model=tiny", "envs.alfworld.options.data=/nowhere")
    assert command.exit_code == 2 and "no ALFWorld data at /nowhere" in command.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a published result"),
        (["--list", "--json"], "--json prints the result; leave it out with --list and --show"),
        (["verl_agent_alfworld_gigpo"], "did you mean verl_agent_alfworld_gigpo_"),
        ([NAME, "algorithm.lr=1e-5,1e-6"], "over seeds only, not over algorithm.lr"),
        ([NAME, "algorithm.beat=1"], "algorithm.beat"),
    ],
)
def test_a_wrong_command_is_told(words, message):
    command = run(*words)
    assert command.exit_code == 2 and message in command.stderr


def test_a_command_that_fails_ends_it(commands, monkeypatch):
    def fails(words, quiet):
        raise RuntimeError("the engine died")

    monkeypatch.setattr(reproduction, "run_command", fails)
    command = run(NAME)
    assert command.exit_code == 1 and "the engine died; the same command goes on" in command.stdout


def test_the_list_has_every_result_with_its_source():
    listed = run("--list").stdout
    assert all(name in listed for name in TARGETS)
    assert all(find(name).arm.source and protocol.seeds for name in TARGETS for protocol in PROTOCOLS.values())


def test_the_page_has_the_published_numbers():
    text = pages.PAGE.read_text()
    assert pages.page(text, pages.kept()) == text, "python benchmarks/reproduction_page.py renews it"


def test_the_page_shows_what_was_reproduced_beside_it(commands, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "KEPT", tmp_path / "kept")
    reproduction.reproduce(NAME, "seed=0,1")
    pages.keep([tmp_path / "reproductions" / NAME / "result.json"])
    assert "|86.7; ours 62.5 [0, 100], seeds 0, 1|" in pages.page(pages.PAGE.read_text(), pages.kept())
