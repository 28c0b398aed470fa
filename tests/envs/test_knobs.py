"""The knobs of environments: options that are accepted, refused out of range, and that set what tasks are like."""

import asyncio
from typing import Any

import pytest

from agentgym_rl.envs import Task, env_class, make
from agentgym_rl.envs.core import TextEnv
from agentgym_rl.envs.knobs import Knob, Setting
from agentgym_rl.envs.maze import Maze
from agentgym_rl.envs.maze.families import FAMILIES
from agentgym_rl.envs.maze.tasks import BANDS, LENGTHS, SIZES
from agentgym_rl.envs.probe import solution
from agentgym_rl.envs.textcraft import TextCraft

WITH = ("alfworld", "babyai", "maze", "sqlgym", "textcraft", "webshop")
"""Environments that have knobs."""
KNOBS = [(name, knob) for name in WITH for knob in env_class(name).knobs]
TRAINED = {"textcraft": "train_variants"}
"""The split whose tasks follow the knobs, where it is not ``train``."""


def shown(env: TextEnv, split: str) -> list[str]:
    """What the first tasks of a split show, and whether the oracle solves them."""
    tasks = [Task(env.spec.name, index) for index in env.spec.splits[split][:3]]
    assert all(solution(env, task) for task in tasks)
    return [asyncio.run(env.content(task)) for task in tasks]


@pytest.mark.parametrize(("name", "knob"), KNOBS, ids=lambda each: getattr(each, "option", each))
def test_moving_a_knob_moves_what_tasks_are_like(name: str, knob: Knob) -> None:
    split = TRAINED.get(name, "train")
    settings: dict[Setting, dict[str, Any]] = {value: {knob.option: value} for value in knob.values[:4]}
    tasks_of_value = {value: shown(make(name, **options), split) for value, options in settings.items()}
    assert len({str(tasks) for tasks in tasks_of_value.values()}) > 1, tasks_of_value


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("alfworld", {"size": "huge"}, "size 'huge' is unknown; choose one of small, medium, large"),
        ("alfworld", {"types": []}, "types is empty; choose among"),
        ("babyai", {"levels": "GoToMoon"}, "level 'GoToMoon' is unknown; choose among GoToRedBallGrey"),
        ("babyai", {"levels": []}, "levels is empty; choose among"),
        ("sqlgym", {"domains": ["moons"]}, "domain 'moons' is unknown; choose among library"),
        ("sqlgym", {"domains": []}, "domains is empty; choose among"),
        ("sqlgym", {"domains": "shop", "data": "x"}, "domains=shop is for built-in questions; leave out"),
        ("webshop", {"wishes": 3}, "wishes=3 is not between 4 and 7"),
        ("webshop", {"wishes": 4, "data": "x"}, "wishes=4 is for the built-in shop; leave out"),
        ("maze", {"steps": "4"}, "steps '4' is unknown; choose one of 1-4, 5-8, 9-12"),
        ("maze", {"size": 6}, "size=6 is not between 7 and 10 cells"),
        ("maze", {"size": "7"}, "maze: size='7' is not of type int | None"),
        ("textcraft", {"distractors": 0}, "distractors=0 is not between 1 and 10"),
        (
            "textcraft",
            {"distractors": 2, "recipes": "x", "tasks_of": "y"},
            "tasks_of gives the recipes on show; leave out",
        ),
        ("textcraft", {"distractors": 11}, "distractors=11 is not between 1 and 10"),
    ],
)
def test_a_knob_out_of_range_is_refused(name: str, options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error.replace("|", r"\|")):
        make(name, **options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("babyai", {"levels": ["Pickup", "Open"]}),
        ("sqlgym", {"domains": ["shop", "flights"]}),
        ("webshop", {"wishes": 5}),
        ("alfworld", {"size": "small", "types": ["pick_and_place_simple"]}),
    ],
)
def test_a_knob_leaves_the_tasks_of_its_value_as_they_are(name: str, options: dict[str, Any]) -> None:
    full, part = make(name), make(name, **options)
    for split, indices in part.spec.splits.items():
        assert 0 < len(indices) < len(full.spec.splits[split]) and {*indices[:50]} <= {*full.spec.splits[split]}
        for index in indices[:3]:
            text = f"{part.goal(Task(name, index))} {part.difficulty(Task(name, index))}"
            assert text == f"{full.goal(Task(name, index))} {full.difficulty(Task(name, index))}"
            value = next(iter(options.values()))
            names = value if isinstance(value, list) else [str(value)]
            assert any(each.lower() in text.lower() for each in names), text


def test_steps_of_a_knob() -> None:
    sizes, families = Knob("size", (7, 8, 9)), Knob("family", ("a", "b", "c"), ordered=False)
    assert [sizes.near(value) for value in sizes.values] == [[8], [7, 9], [8]]
    assert families.near("b") == ["a", "c"]
    assert [sizes.distance(7, value) for value in sizes.values] == [0, 0.5, 1]
    assert [families.distance("a", value) for value in families.values] == [0, 1, 1]


@pytest.mark.parametrize("steps", LENGTHS)
@pytest.mark.parametrize("family", FAMILIES)
def test_mazes_of_a_setting(family: str, steps: str) -> None:
    env, band = Maze(family=family, steps=steps, size=SIZES[0]), BANDS[LENGTHS.index(steps)]
    for split in ("train", "test", "val_variants"):
        tasks = [Task("maze", index) for index in env.spec.splits[split][:3]]
        assert len(env.spec.splits[split]) == len(Maze().spec.splits[split]) // 12
        assert {env.difficulty(task) for task in tasks} == {f"steps {steps}"}
        assert {len(env.oracle(task)) in band for task in tasks} == {True}
        assert {env.goal(task).partition(" in ")[2].partition("-")[0] for task in tasks} == {family}


def test_small_mazes_are_small_and_other_mazes_stay_as_they_were() -> None:
    tasks = [Task("maze", index) for index in Maze().spec.splits["train"][:60]]
    plain, largest, small = Maze(), Maze(size=SIZES[-1]), Maze(size=SIZES[0])
    assert [plain.goal(task) for task in tasks] == [largest.goal(task) for task in tasks]
    assert max(small._find(task).layout.extent for task in tasks) == SIZES[0]
    assert max(plain._find(task).layout.extent for task in tasks) > SIZES[0]
    official = [Task("maze", index) for index in Maze().spec.splits["agentgym"]]
    assert [plain.goal(task) for task in official] == [small.goal(task) for task in official]


@pytest.mark.parametrize("style", ["agentgym", "compact"])
@pytest.mark.parametrize("number", [1, 4, 10])
def test_as_many_distractors_as_asked_for(style: Any, number: int) -> None:
    env = TextCraft(style, distractors=number)
    for index in (*env.spec.splits["train"][:20], *env.spec.splits["val_variants"][:3]):
        puzzle = env._puzzle(Task("textcraft", index))
        book = env._tasks.book
        needed = puzzle.plan.recipes if style == "compact" else book.tree(puzzle.goal.item)
        assert len(set(puzzle.lines)) == len(puzzle.lines) == len(needed) + number


def test_other_distractors_are_another_game_to_a_panel() -> None:
    task = Task("textcraft", 3)
    assert len({TextCraft(distractors=number).revision(task) for number in (None, 1, 2)}) == 3
