"""Panels by name: splits, files, runs; equal tasks have equal digests."""

import json
from dataclasses import replace

import pytest
import yaml

from agentgym_rl.api import evaluation
from agentgym_rl.api.request import EvalRequest
from agentgym_rl.data.panels import select
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import UnknownEnv
from agentgym_rl.eval.evaluation.rules import Rules, read_config
from agentgym_rl.eval.evaluation.suite import read, runs_of
from agentgym_rl.rollout.harness.policy import HarnessPolicy
from agentgym_rl.rollout.harness.settings import Harness
from agentgym_rl.rollout.policies.scripted import Function
from agentgym_rl.rollout.settings import RolloutSettings

pytestmark = pytest.mark.usefixtures("toys")

RULES = Rules()


def names(suite):
    return [str(task) for task in suite.tasks]


def item_file(path, *item_ids):
    path.write_text(json.dumps([{"item_id": item_id} for item_id in item_ids]))
    return path


@pytest.fixture
def run(tmp_path):
    """The folder of a run with two labels."""
    drawn = {"split": "test", "difficulty": ["length [12]"], "n": 4, "seed": 1, "samples": 1, "role": "test"}
    entire = {**drawn, "difficulty": None, "n": None}
    config = {
        "envs": {
            "counter": {"panels": {"easy": drawn, "all": entire}, "options": {"hurry": True}, "max_turns": 3},
            "plain": {"panels": {"all": entire}, "options": {}, "max_turns": None},
        },
        "rollout": {
            "style": "compact", "action_format": "react", "max_new_tokens": 24, "invalid_limit": 2, "step_seconds": 5.0,
            "episode_seconds": 50.0, "retries": 1, "temperature": 1.0, "workers": 1,
        },
        "model": {"prompt_tokens": 100, "response_tokens": 300},
    }  # fmt: skip
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return folder


def test_a_split_is_its_panel():
    suite = read("counter:test", RULES)
    assert suite.digest == select("counter", "test").digest
    assert suite.difficulties["counter_40"] == "length 2"
    assert suite.to_dict() == {
        "digest": suite.digest,
        "n": 10,
        "envs": {"counter": {"name": "test", "digest": suite.digest, "n": 10}},
    }


def test_a_number_draws_the_same_tasks_always():
    assert names(read("counter:train:5", RULES)) == list(select("counter", "train", n=5).item_ids)
    assert names(read("counter:train:5:3", RULES)) == list(select("counter", "train", n=5, seed=3).item_ids)


def test_several_worlds_have_one_digest_whatever_their_order():
    suite, other = read("counter:test,plain:test:3", RULES), read(" plain:test:3 , counter:test,", RULES)
    assert (suite.digest, suite.envs) == (other.digest, ["counter", "plain"])
    assert suite.digest not in [panel.digest for panel in suite.panels]
    assert len(suite.tasks) == 13


def test_a_world_named_twice_is_one_panel_with_each_task_once():
    suite = read("counter:test,counter:test:3,counter:train:2", RULES)
    assert [len(panel.item_ids) for panel in suite.panels] == [12]
    assert suite.panels[0].name == "test+test-n3-seed0+train-n2-seed0"


def test_a_file_lists_tasks_of_several_worlds(tmp_path):
    file = item_file(tmp_path / "mixed.json", "plain_7", "counter_44", "counter_41", "counter_44")
    suite = read(str(file), RULES)
    assert names(suite) == ["counter_41", "counter_44", "plain_7"]
    same = item_file(tmp_path / "again.json", "counter_41", "plain_7", "counter_44")
    assert read(str(same), RULES).digest == suite.digest


def test_a_runs_panels_by_label(run):
    rules = Rules.of_run(read_config(run))
    suite = read(f"{run}:easy", rules)
    expected = select("counter", "test", ["length [12]"], 4, 1, {"hurry": True})
    assert (suite.digest, suite.panels[0].name) == (expected.digest, expected.name)
    assert read(f"{run}:all", rules).envs == ["counter", "plain"]
    assert runs_of(f"counter:test,{run}:easy,{run}:hard") == [run]
    assert runs_of("counter:test") == []


def test_runs_whose_rules_differ_are_refused(run, tmp_path):
    config = read_config(run)

    def other(name, **changes):
        folder = tmp_path / "runs" / name
        folder.mkdir()
        (folder / "config.yaml").write_text(yaml.safe_dump({**config, **changes}))
        return folder

    far = other("far", envs={"vast": {"panels": {}, "options": {"seed": 1}, "max_turns": 9}})
    joined = Rules.of_runs([run, far])
    assert joined == replace(Rules.of_run(config), max_turns={"counter": 3, "vast": 9}, options={
        "counter": {"hurry": True}, "vast": {"seed": 1}
    })  # fmt: skip
    plain = other("plain", envs={**config["envs"], "counter": {**config["envs"]["counter"], "options": {}}})
    for differs in (plain, other("longer", model={"prompt_tokens": 100, "response_tokens": 400})):
        with pytest.raises(ValueError, match=f"rules of {run} and {differs} differ"):
            Rules.of_runs([run, differs])


def test_the_rules_of_a_run(run):
    rules = Rules.of_run(read_config(run))
    assert rules.of_env("counter") == RolloutSettings(
        style="compact", max_new_tokens=24, invalid_limit=2, step_seconds=5, episode_seconds=50, retries=1, max_turns=3
    )
    assert (rules.of_env("plain").max_turns, rules.options_of("counter")) == (None, {"hurry": True})
    assert (rules.prompt_tokens, rules.response_tokens) == (100, 300)


def test_an_environments_turn_limit_goes_before_the_runs_as_in_training(run):
    config = read_config(run)
    config["rollout"]["max_turns"] = 30
    rules = Rules.of_run(config)
    assert [rules.of_env(env).max_turns for env in ("counter", "plain")] == [3, 30]
    assert rules.but(max_turns=9).of_env("counter").max_turns == 9


def test_a_style_with_prompts_of_its_own_brings_its_context():
    there = Rules().but(style="verl_agent")
    back = there.but(style="compact")
    assert [rules.settings.context for rules in (there, there.but(max_turns=3), back)] == ["recent", "recent", "full"]
    window = Rules(settings=RolloutSettings(context="window"))
    assert window.but(style="compact").settings.context == "window"


def test_what_nobody_hides_from_a_model_is_not_said_to_be_hidden(run):
    """An API, a function and a harness hold their conversations; the rules of a run may hide turns and thoughts."""
    config = read_config(run)
    config["rollout"] |= {"context": "window", "thinking": "strip"}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    Rules.of_run(config).keep(run, {})
    request = EvalRequest(panel=f"{run}:all", policy="openai:m@http://127.0.0.1:9/v1")

    def hidden(*arguments):
        settings = evaluation.rules_for(*arguments).settings
        return str(settings.context), str(settings.thinking)

    local = Function(len)
    local.backend = "transformers"
    program = replace(request, harness="python agent.py")
    assert hidden(request, None) == hidden(request, None, Function(len)) == hidden(program, None) == ("full", "keep")
    assert hidden(request, str(run)) == hidden(request, None, local) == ("window", "strip")
    assert hidden(program, str(run)) == hidden(program, None, local) == ("full", "strip")
    harness = HarnessPolicy(Harness(command=["true"]), local)
    assert hidden(request, None, harness) == ("full", "strip")


def test_rules_are_departed_from_and_written(run, tmp_path):
    rules = Rules.of_run(read_config(run)).but(max_turns=9, style=None, action_format=ActionFormat("function_calling"))
    assert rules.of_env("counter").max_turns == rules.of_env("plain").max_turns == 9
    assert rules.settings.style == "compact"
    assert Rules.from_dict(json.loads(json.dumps(rules.to_dict()))) == rules
    rules.keep(tmp_path, {"step": 3})
    assert Rules.beside(tmp_path) == rules
    assert json.loads((tmp_path / "agentgym_rl.json").read_text())["step"] == 3
    assert Rules.beside(run) is None


@pytest.mark.parametrize(
    ("panel", "error", "says"),
    [
        ("", ValueError, "panel= names no panel; give one like"),
        ("counter", ValueError, "panel 'counter' is an environment without a split; write panel=counter:test"),
        ("counter:test:many", ValueError, "'counter:test:many' is none of"),
        ("counter:dev", ValueError, "no split 'dev'; its splits: train, test"),
        ("counter:test:99", ValueError, "n is 99, but counter test has only 10"),
        ("countre:test", UnknownEnv, "countre"),
        ("nothing.json", FileNotFoundError, "nothing.json does not exist"),
        ("{run}", ValueError, "has panels easy, all; say which, like panel=.*:easy"),
        ("{run}:hard", ValueError, "has no panel 'hard'; it has easy, all"),
    ],
)
def test_names_that_cannot_be_read(run, panel, error, says):
    with pytest.raises(error, match=says):
        read(panel.format(run=run), RULES)


def test_what_is_no_run_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="not the folder of a run"):
        read_config(tmp_path)
    (tmp_path / "config.yaml").write_text("a: 1\n")
    with pytest.raises(ValueError, match="not the configuration of a run"):
        read_config(tmp_path)
