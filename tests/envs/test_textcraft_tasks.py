"""TextCraft's tasks: solvable, frozen, the same everywhere."""

import asyncio
import hashlib
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable

import pytest
from sessions import splits_of
from sweep import some, swept

from agentgym_rl.envs import Task
from agentgym_rl.envs.core import Style, TaskNotFound
from agentgym_rl.envs.textcraft import TextCraft
from agentgym_rl.envs.textcraft.book import RecipeBook
from agentgym_rl.envs.textcraft.catalogue import LAYERS, Catalogue, catalogue
from agentgym_rl.envs.textcraft.puzzle import make_puzzle
from agentgym_rl.envs.textcraft.recipe import parse_recipe

SPLITS = TextCraft().spec.splits
FIRST_OBSERVATIONS = "008d561c26e67202740b3ed1b482187af699bbc36dec4cbd81acb23214ad292b"
"""SHA-256 over the first observations of all frozen goals in both styles; changes when any task changes."""


def sampled_variants(count: int) -> list[int]:
    rng = random.Random(0)
    names = ["train_variants", "val_variants", "test_variants"]
    return [split[rng.randrange(len(split))] for split in (SPLITS[rng.choice(names)] for _ in range(count))]


async def solve(indices: Iterable[int], style: Style) -> None:
    env = TextCraft(style)
    for index in indices:
        task = Task("textcraft", index)
        first = (await env.reset(task)).text
        actions = env.oracle(task)
        assert len(actions) <= env.spec.max_turns
        for place, action in enumerate(actions):
            step = await env.step(action)
            assert not step.info["invalid"], (index, action, first)
            assert step.terminated == (place == len(actions) - 1), (index, action)
        assert env.spec.success(step.reward)


@pytest.mark.slow
@pytest.mark.sweep
def test_oracle_solves_variants() -> None:
    asyncio.run(solve(sampled_variants(swept(2000)), "compact"))


def test_first_observations_are_frozen() -> None:
    async def digest() -> str:
        digest = hashlib.sha256()
        for style in ("agentgym", "compact"):
            env = TextCraft(style)
            for index in range(474):
                digest.update((await env.reset(Task("textcraft", index))).text.encode())
        return digest.hexdigest()

    assert asyncio.run(digest()) == FIRST_OBSERVATIONS


@pytest.mark.slow
def test_same_in_every_process() -> None:
    code = """
import asyncio
from agentgym_rl.envs import Task
from agentgym_rl.envs.textcraft import TextCraft
async def show():
    for style in ("agentgym", "compact"):
        env = TextCraft(style)
        for index in [*range(0, 474, 19), *range(7000, 900000, 37001)]:
            if index % 1000 < 474:
                task = Task("textcraft", index)
                print((await env.reset(task)).text, env.oracle(task))
asyncio.run(show())
"""
    shown = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert shown[0] == shown[1]
    assert shown[0].count("Goal: ") > 70


def test_compact_first_observation_is_short() -> None:
    for index in [*some(range(474)), *sampled_variants(swept(500))]:
        puzzle = make_puzzle(catalogue(None), index, "compact")
        needed = {str(recipe) for recipe in puzzle.plan.recipes}
        assert needed <= set(puzzle.lines)
        assert len(puzzle.lines) == len(set(puzzle.lines))
        assert len(puzzle.lines) - len(needed) >= 2
        assert len(puzzle.lines) <= max(8, len(needed) + 2)
        assert sum(len(line.split()) for line in puzzle.lines) <= 112


def test_agentgym_first_observation_has_distractors() -> None:
    tasks = catalogue(None)
    for index in range(474):
        puzzle = make_puzzle(tasks, index, "agentgym")
        tree = {str(recipe) for recipe in tasks.book.tree(puzzle.goal.item)}
        assert tree <= set(puzzle.lines)
        assert 2 <= len(set(puzzle.lines) - tree) <= 10


@pytest.mark.parametrize("style", ["agentgym", "compact"])
@pytest.mark.parametrize("goal", [4, 44, 276])
def test_no_split_repeats_a_game_of_another(goal: int, style: Style) -> None:
    """All versions of a goal. The first two goals have two games by themselves; ``bow`` has many."""
    tasks = catalogue(None)
    layers: dict[str, set[int]] = {}
    for number, versions in enumerate(LAYERS):
        for index in tasks.versions(tasks.goals[goal], versions):
            layers.setdefault(make_puzzle(tasks, index, style).content, set()).add(number)
    assert [content for content, numbers in layers.items() if len(numbers) > 1] == []


def test_recipes_too_few_for_another_game_are_named() -> None:
    recipes = ("1 a using 1 x", "1 b using 1 y", "1 c using 1 z")
    book = RecipeBook([parse_recipe(line) for line in recipes], {})
    tasks = Catalogue(book, ("a", "b", "c"), {}, 1000)
    with pytest.raises(TaskNotFound, match=r"textcraft_950000: these recipes are too few for a game of craft"):
        for version in (950, 951, 952, 953, 954):
            make_puzzle(tasks, 1000 * version, "agentgym")


def test_variants_differ_from_their_goal_and_each_other() -> None:
    tasks = catalogue(None)
    goal = tasks.goals.index("bow")
    puzzles = [make_puzzle(tasks, goal + 1000 * version, "compact") for version in range(60)]
    assert {puzzle.goal.item for puzzle in puzzles} == {"bow"}
    assert len({puzzle.lines for puzzle in puzzles}) > 50
    amounts = Counter(puzzle.goal.amount for puzzle in puzzles)
    assert set(amounts) == {None, 2}
    assert 5 <= amounts[2] <= 25


def test_amount_ends_the_episode_when_all_are_crafted() -> None:
    env = TextCraft()
    index = catalogue(None).goals.index("birch door")
    more = next(i for i in range(index + 1000, 900_000, 1000) if env.goal(Task("textcraft", i)) == "craft 6 birch door")

    async def episode() -> list[float]:
        first = await env.reset(Task("textcraft", more))
        assert first.text.endswith("Goal: craft 6 birch door.")
        return [(await env.step(action)).reward for action in env.oracle(Task("textcraft", more))]

    assert asyncio.run(episode())[-3:] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(("name", "versions"), [("train", 900), ("val", 49), ("test", 50)])
def test_variant_splits(name: str, versions: int) -> None:
    split = SPLITS[f"{name}_variants"]
    assert len(split) == 374 * versions
    assert all(split[place] in split for place in range(0, len(split), 997))
    assert split[-1] == split[len(split) - 1] and split[:2] == [split[0], split[0] + 1]
    with pytest.raises(IndexError):
        split[len(split)]
    assert split[0] - 1000 not in split and split[-1] + 1000 not in split
    assert 374 + split[0] not in split


def test_splits_of_a_task() -> None:
    env = TextCraft()
    splits_found = [splits_of(env, index) for index in (0, 373, 374, 473, 1000, 900_373, 901_000, 999_373)]
    assert splits_found == [
        *[["train"]] * 2,
        *[["test"]] * 2,
        *[["train_variants"]] * 2,
        ["val_variants"],
        ["test_variants"],
    ]


def test_goals_are_held_out_of_training() -> None:
    held = TextCraft(held_out=60).spec.splits
    assert len(held["val"]) == 60 and sorted([*held["train"], *held["val"]]) == list(SPLITS["train"])
    assert held["test"] == SPLITS["test"]
    for name in ("train_variants", "val_variants", "test_variants"):
        assert {index % 1000 for index in held[name]} == set(held["train"])
    for number in (0, 374):
        with pytest.raises(ValueError, match=f"held_out={number} is not between 1 and 373"):
            TextCraft(held_out=number)


def items(text: str) -> set[str]:
    """The items of ``3 oak planks, 1 stick``."""
    return {stack.partition(" ")[2] for stack in text.split(", ")}


def test_a_thought_explains_every_item_of_the_plan() -> None:
    env, book = TextCraft("compact", thoughts=True), catalogue(None).book
    for index in [*some(range(474)), *sampled_variants(swept(500))]:
        task = Task("textcraft", index)
        commands = env.oracle(task)
        first, *others = env.thoughts(task)
        assert others == [""] * (len(commands) - 1)
        needs, _, plan = first.partition("\nPlan: ")
        assert plan.split("; ") == commands
        sources = dict(need.split(": ") for need in needs.split("; "))
        assert next(iter(sources)) == commands[-1].split(" using ")[0].split(" ", 2)[2]
        assert {item for item, source in sources.items() if source == "get"} == {
            command.split(" ", 2)[2] for command in commands if command.startswith("get ")
        }
        for item, source in sources.items():
            if item in book.tags:
                assert source in book.tags[item] and source in sources
            elif source != "get":
                assert items(source) <= sources.keys()
                assert any(", ".join(map(str, recipe.inputs)) == source for recipe in book.recipes[item])
    assert TextCraft("compact").thoughts(Task("textcraft", 0)) == []
