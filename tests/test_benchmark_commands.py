"""The commands of benchmarks/: they start, and what they run composes."""

import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("verl")

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import step_overhead  # noqa: E402

from agentgym_rl.engine.recipe.compose import RecipeError, load, restore, to_dict, to_yaml  # noqa: E402
from agentgym_rl.engine.run.session import variables  # noqa: E402
from agentgym_rl.eval.evaluation.rules import read_config  # noqa: E402

SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text())


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_tells_its_options(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        importlib.import_module(script).main()
    assert "--" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("agentgym_texts maze http://127.0.0.1:1 --tasks 5:5", "--tasks 5:5 holds no task"),
        ("allocator model --repeats 0", "--repeats: 0 is less than 1"),
        ("browser --steps 1", "--steps: their spread needs two or more"),
        ("env_server --against http://127.0.0.1:1", "--against needs --envs with one environment"),
        ("evidence algorithms --page --confirm", "--page goes with no other option; leave out --confirm"),
        ("evidence algorithms --stale --arms bc", "--stale goes with no other option; leave out --arms"),
        ("evidence algorithms --power --plan", "--power goes with no other option; leave out --plan"),
        ("evidence algorithms --plan --engine nowhere", "nowhere"),
        ("fuzz --only maze nowhere --actions 1", "--only nowhere: no target of this machine has it in its name"),
        ("fuzz --replies 0 --actions 0", "--replies 0 --actions 0 leave no target"),
        ("fuzz --actions 0 --only maze", "--only maze: no target of this machine has it in its name"),
        ("gateway --rounds 1", "--rounds: a session needs two episodes or more"),
        ("gpu --device cpu --tiny --micro-tokens 99", "--micro-tokens 99: an episode has up to 100"),
        ("rollout --in-flight 16 --latency 0 10", "--at 256 is none of --in-flight"),
        ("scale --episodes 256 0", "--episodes: 0 is less than 1"),
        ("scale --episodes 100", "--episodes 100: groups have 16"),
        ("scale --gpus 12", "--gpus 12: a node has 8"),
        ("search --policy noisy --env forks", "--env forks: choose textcraft, babyai, fork"),
        ("step_overhead --steps 1", "--steps: the first one is not counted"),
        ("viewer --episodes 10 --files 3", "--episodes 10 cannot be shared out evenly to --files 3"),
    ],
)
def test_what_would_be_done_in_part_or_not_at_all_is_refused(command, says, monkeypatch, capsys):
    script, *options = command.split()
    monkeypatch.setattr(sys, "argv", [f"{script}.py", *options])
    with pytest.raises(SystemExit, match=r"^2$"):
        importlib.import_module(script).main()
    assert says in capsys.readouterr().err


def test_both_sides_of_the_step_overhead_do_the_same_work(tmp_path, monkeypatch):
    commands = {}

    def started(command, **options):
        commands[Path(options["stdout"].name).stem if hasattr(options["stdout"], "name") else "stock"] = command
        raise InterruptedError

    monkeypatch.setattr(step_overhead.subprocess, "Popen", started)
    for side in (step_overhead.ours, step_overhead.stock):
        with pytest.raises(InterruptedError):
            side(tmp_path / "model", tmp_path / side.__name__, 6)
    stock = dict(word.split("=", 1) for word in commands["stock"][3:])
    ours = load(commands["ours"][4:])
    assert ours.model.path == stock["actor_rollout_ref.model.path"] == str(tmp_path / "model")
    same = {
        "data.train_batch_size": ours.algorithm.tasks_per_step,
        "data.max_prompt_length": ours.model.prompt_tokens,
        "data.max_response_length": ours.model.response_tokens,
        "+data.agentgym.max_new_tokens": ours.rollout.max_new_tokens,
        "+data.agentgym.invalid_limit": ours.rollout.invalid_limit,
        "actor_rollout_ref.rollout.n": ours.algorithm.samples_per_task,
        "actor_rollout_ref.actor.ppo_mini_batch_size": ours.algorithm.mini_batch_tasks,
        "actor_rollout_ref.actor.optim.lr": ours.algorithm.lr,
        "trainer.total_training_steps": ours.algorithm.steps,
    }
    assert {key: float(stock[key]) for key in same} == same
    assert variables(ours.engine)["VERL_PLATFORM"] == "cpu"


@pytest.mark.parametrize(
    "overrides",
    [
        ["experiment=demo", "algorithm=agentevol", "mixture=dynamic", "curriculum=growing"],
        ["experiment=smoke", "algorithm=grpo", "model=some/model", "envs.textcraft.max_turns=7"],
        ["experiment=horizon", "algorithm=bc"],
    ],
)
def test_the_configuration_of_a_run_is_read_again(overrides, tmp_path):
    config = load(overrides)
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    again = restore(read_config(tmp_path))
    assert again == config
    assert [type(value) for value in vars(again).values()] == [type(value) for value in vars(config).values()]


def test_a_configuration_of_unknown_keys_is_refused():
    config = to_dict(load(["experiment=smoke", "algorithm=grpo"]))
    with pytest.raises(RecipeError, match=r"algorithm\.name='unheard' is unknown; choose"):
        restore(config | {"algorithm": {"name": "unheard"}})
    with pytest.raises(RecipeError, match="bc is unknown"):
        restore(config | {"bc": {"epochs": 1}})
