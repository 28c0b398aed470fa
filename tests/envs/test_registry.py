"""Environments are found by entry point, and what is missing is said."""

import asyncio
import dataclasses
import json
import sys
from pathlib import Path

import pytest
import toy

from agentgym_rl.cli.common import env_options
from agentgym_rl.envs import Task, available, env_class, make
from agentgym_rl.envs.core import EnvError, MissingExtra, TaskNotFound, UnknownEnv
from agentgym_rl.envs.registry import base_name


def test_a_world_of_another_package_is_found(toys):
    assert "counter" in available()
    assert available() == sorted(available())
    assert env_class("counter").__name__ == "Counter"
    assert make("counter", style="compact").style == "compact"


def test_own_worlds_are_listed():
    assert {"textcraft", "babyai", "maze"} <= set(available())


@pytest.mark.parametrize("name", available())
def test_an_environment_takes_part_under_several_names(name):
    plain, part = make(name), make(f"{name}-part")
    assert part.spec == dataclasses.replace(plain.spec, name=f"{name}-part")
    assert type(part) is not type(plain) and env_class(f"{name}-part") is type(part)


def test_tasks_belong_to_the_name_of_their_part():
    part = make("maze-far")
    task = Task.parse("maze-far_30")
    assert (task.env, task.index) == ("maze-far", 30)
    assert part.goal(task) == make("maze").goal(Task("maze", 30))
    with pytest.raises(TaskNotFound, match="maze_30 is not a task of maze-far"):
        part.goal(Task("maze", 30))
    with pytest.raises(UnknownEnv, match=r"unknown environment 'labyrinth-far'; installed environments: .*maze"):
        make("labyrinth-far")


def test_a_part_of_an_environment_with_a_hyphen_in_its_name(toys):
    points = toys / "toy_worlds-1.0.dist-info" / "entry_points.txt"
    points.write_text(f"{points.read_text()}counter-by-tens = toy:Counter\n")
    part = env_class("counter-by-tens-far")
    assert (part.name, part.__name__, base_name(part.name)) == ("counter-by-tens-far", "Counter", "counter-by-tens")
    assert [base_name(name) for name in ("counter-far-off", "labyrinth-far")] == ["counter", "labyrinth"]


def test_unknown_world_lists_the_installed_ones(toys):
    with pytest.raises(UnknownEnv, match=r"unknown environment 'countre'; installed environments: .*counter"):
        make("countre")


def test_missing_extra_names_the_pip_command(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("agentgym_rl.envs.babyai")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(MissingExtra, match=r"needs the package 'minigrid.*pip install 'agentgym-rl\[babyai\]'"):
        env_class("babyai")


def test_a_package_of_others_has_no_extra_of_ours(toys):
    with pytest.raises(EnvError, match=r"'needy': its entry point needy_world:Needy .*'a_package_nobody_has'") as info:
        env_class("needy")
    assert "agentgym-rl[" not in str(info.value)


def test_a_broken_plug_in_names_its_entry_point(toys):
    with pytest.raises(EnvError, match=r"environment 'broken': its entry point toy:Nothing .*Nothing"):
        env_class("broken")


def test_two_packages_cannot_have_one_name(toys):
    points = toys / "toy_worlds-1.0.dist-info" / "entry_points.txt"
    points.write_text(f"{points.read_text()}maze = toy:Counter\n")
    with pytest.raises(ValueError, match=r"toy:Counter.* are environments of one name, 'maze'"):
        available()


def test_options_reach_the_world(toys):
    world = make("counter", hurry=True)
    assert isinstance(world, toy.Counter)
    assert world.hurry is True
    with pytest.raises(ValueError, match="counter has no option 'speed'; its options: style, hurry"):
        make("counter", speed=3)
    with pytest.raises(ValueError, match="counter: hurry='fast' is not of type bool"):
        make("counter", hurry="fast")
    with pytest.raises(ValueError, match="counter has no style 'loud'; choose agentgym or compact"):
        make("counter", style="loud")


@pytest.fixture
def spoken(tmp_path):
    """Writes a file of AgentTraj with one conversation; its path."""

    def write(item_id, *messages):
        turns = [
            {"from": ("human", "gpt")[at % 2], "loss": None, "value": message} for at, message in enumerate(messages)
        ]
        path = tmp_path / "trajectories.json"
        path.write_text(json.dumps([{"item_id": "webshop_1"}, {"item_id": item_id, "conversations": turns}]))
        return str(path)

    return write


def first(env, index):
    return asyncio.run(env.reset(Task(env.spec.name, index))).text


def test_the_instruction_is_that_of_trajectories(spoken):
    options = env_options("textcraft", [f"instruction_of={spoken('textcraft_3', 'Craft things.', 'OK.', 'Goal: x')}"])
    env = make("textcraft", **options)
    assert env.spec.conversation_start("agentgym")[0]["content"] == "Craft things."
    assert env.spec.instructions["compact"] == make("textcraft").spec.instructions["compact"]
    assert first(env, 0) == first(make("textcraft"), 0)
    assert make("textcraft").spec.instructions["agentgym"] != "Craft things."


def test_rules_that_precede_the_first_observation(spoken):
    file = spoken("lmrlgym_maze_3", "Solve mazes.", "OK.", "The rules:\ngo on.\nThe goal is at position 1, 2.")
    env = make("maze", instruction_of=file)
    assert first(env, 3) == "The rules:\ngo on.\n" + first(make("maze"), 3)
    step = asyncio.run(env.step("move up")).observation.text
    assert env.spec.instructions["agentgym"] == "Solve mazes." and step.startswith("The goal is")


def test_rules_in_place_of_the_first_observation(spoken, tmp_path):
    (tmp_path / "words.txt").write_text("crane\nslate\n")
    file, words = spoken("wordle_0", "Guess.", "OK.", "One of\ncrane\nslate\n"), str(tmp_path / "words.txt")
    assert first(make("wordle", vocabulary=words, instruction_of=file), 12) == "One of\ncrane\nslate\n"
    with pytest.raises(ValueError, match="list other words; give theirs by the option vocabulary"):
        make("wordle", instruction_of=file)


def test_files_without_an_instruction(spoken, tmp_path):
    with pytest.raises(ValueError, match=r"trajectories\.json has no conversation with maze"):
        make("maze", instruction_of=spoken("textcraft_3", "a", "b", "c"))
    with pytest.raises(ValueError, match="entry 2: it is no conversation of AgentTraj"):
        make("maze", instruction_of=spoken("maze_3", "a", "b"))
    file = Path(spoken("maze_3", "a goal", "an action", "an observation"))
    file.write_text(file.read_text().replace('"gpt", "loss": null', '"gpt", "loss": true'))
    with pytest.raises(ValueError, match="it does not begin with an instruction, an acknowledgement without loss"):
        make("maze", instruction_of=str(file))
    with pytest.raises(ValueError, match="for the style agentgym, not compact"):
        make("maze", style="compact", instruction_of=spoken("maze_3", "a", "b", "c"))
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        make("maze", instruction_of=str(tmp_path / "none.json"))
