"""TextCraft's recipe books: the shipped one and official folders."""

import asyncio
import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.probe import follow, walk
from agentgym_rl.envs.textcraft import TextCraft
from agentgym_rl.envs.textcraft.book import RecipeBook
from agentgym_rl.envs.textcraft.catalogue import catalogue, shipped_book
from agentgym_rl.envs.textcraft.official import official_book
from agentgym_rl.envs.textcraft.recipe import Recipe, Stack, parse_recipe

GOALS = "03c0bebeb0e18b70f936f22b5c3f32ddf31de118d274c9bc173f09105e6c8bc2"


def test_shipped_goals_are_frozen() -> None:
    data = json.loads(files("agentgym_rl.envs.textcraft").joinpath("goals.json").read_text())
    goals = data["goals"]
    compact = json.dumps(goals, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(compact.encode()).hexdigest() == data["sha256"] == GOALS
    assert [len(goals["train"]), len(goals["test"])] == [374, 100]
    assert len({*goals["train"], *goals["test"]}) == 474


def test_shipped_goals_cover_all_depths() -> None:
    env = TextCraft()
    depths = [
        Counter(env.difficulty(Task("textcraft", index)) for index in env.spec.splits[split])
        for split in ("train", "test")
    ]
    assert depths == [
        {"depth 1": 99, "depth 2": 165, "depth 3": 83, "depth 4": 27},
        {"depth 1": 26, "depth 2": 44, "depth 3": 22, "depth 4": 8},
    ]


def test_shipped_book_is_sound() -> None:
    book = shipped_book()  # raises on cycles, empty tags and unlisted base items
    names = {*book.recipes, *book.base, *book.tags}
    for name in names:
        assert re.fullmatch(r"[a-z]+( [a-z]+)*", name)  # the client strips everything else from a command
    for recipes in book.recipes.values():
        for recipe in recipes:
            inputs = [stack.name for stack in recipe.inputs]
            assert len(set(inputs)) == len(inputs) and set(inputs) <= names
    assert all(set(members) <= names for members in book.tags.values())
    assert not set(catalogue(None).goals) - book.recipes.keys()


def test_cycle_is_an_error() -> None:
    lines = ["9 nugget using 1 ingot", "1 ingot using 9 nugget"]
    with pytest.raises(ValueError, match="cycle"):
        RecipeBook([parse_recipe(line) for line in lines], {})


def test_cycle_through_a_tag_is_an_error() -> None:
    with pytest.raises(ValueError, match="cycle"):
        RecipeBook([parse_recipe("1 red wool using 1 wool")], {"wool": ["red wool"]})


def test_empty_tag_is_an_error() -> None:
    with pytest.raises(ValueError, match="wool"):
        RecipeBook([parse_recipe("1 bed using 3 wool")], {"wool": []})


def test_malformed_line_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a recipe"):
        parse_recipe("4 stick from 2 planks")


def write(folder: Path, name: str, **recipe: object) -> None:
    (folder / f"{name}.json").write_text(json.dumps(recipe))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    planks = {"type": "minecraft:crafting_shapeless", "group": "planks"}
    for wood in ("oak", "birch"):
        log = [{"item": f"minecraft:{wood}_log"}]
        write(tmp_path, wood, **planks, ingredients=log, result={"item": f"minecraft:{wood}_planks", "count": 4})
    shaped = {"type": "minecraft:crafting_shaped"}
    tag = {"#": {"tag": "minecraft:planks"}}
    write(tmp_path, "stick", **shaped, pattern=["#", "#"], key=tag, result={"item": "minecraft:stick", "count": 4})
    key = {"#": {"item": "minecraft:stick"}, "X": [{"item": "minecraft:coal"}, {"item": "minecraft:charcoal"}]}
    write(tmp_path, "torch", **shaped, pattern=["X", "#"], key=key, result={"item": "minecraft:torch", "count": 4})
    gold = {"#": "minecraft:gold_nugget"}
    write(tmp_path, "ingot", **shaped, pattern=["###"] * 3, key=gold, result={"id": "minecraft:gold_ingot"})
    back = ["minecraft:gold_ingot"]
    write(tmp_path, "nugget", type="crafting_shapeless", ingredients=back, result={"id": "gold_nugget", "count": 9})
    block = [{"item": "minecraft:coal_block"}]
    write(tmp_path, "coal", type="minecraft:crafting_shapeless", ingredients=block, result={"item": "minecraft:coal"})
    logs = {"#": {"tag": "minecraft:logs"}}
    write(tmp_path, "bark", **shaped, pattern=["##", "##"], key=logs, result="minecraft:bark")
    write(tmp_path, "smelt", type="minecraft:smelting", ingredient={"item": "minecraft:sand"}, result="minecraft:glass")
    return tmp_path


def test_official_folder(folder: Path) -> None:
    book = official_book(folder)
    depths = {goal: book.depth(goal) for goal in book.goals()}
    assert depths == {"bark": 1, "birch planks": 1, "gold ingot": 1, "oak planks": 1, "stick": 2, "torch": 3}
    assert list(depths) == ["bark", "birch planks", "gold ingot", "oak planks", "stick", "torch"]
    assert book.tags == {"planks": ("birch planks", "oak planks")}
    assert book.base == {"birch log", "coal", "gold nugget", "logs", "oak log"}
    assert [str(recipe) for recipe in book.recipes["torch"]] == ["craft 4 torch using 1 stick, 1 coal"]


def test_official_folder_is_playable(folder: Path) -> None:
    env = TextCraft(recipes=folder)
    assert env.goal(Task("textcraft", 5)) == "craft torch"
    assert env.difficulty(Task("textcraft", 5)) == "depth 3"
    assert env.oracle(Task("textcraft", 5))[-1] == "craft 4 torch using 1 stick, 1 coal"
    assert sorted([*env.spec.splits["train"], *env.spec.splits["test"]]) == list(range(6))
    with pytest.raises(TaskNotFound, match=r"0\.\.5"):
        env.goal(Task("textcraft", 6))


START = (
    "Crafting commands:\ncraft 9 gold nugget using 1 gold ingot\ncraft 4 oak planks using 1 oak log\n\nGoal: craft {}."
)


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    """A file of AgentTraj with two tasks, one of them twice."""
    path = tmp_path / "agenttraj" / "textcraft_train.json"
    path.parent.mkdir()
    goals = ((7, "gold nugget"), (300, "oak planks"), (7, "stick"))
    texts_of = [(index, ("Craft.", "OK.", START.format(goal))) for index, goal in goals]
    entries = [
        {"item_id": f"textcraft_{index}", "conversations": [{"from": who, "value": text} for who, text in turns]}
        for index, texts in texts_of
        for turns in [zip(("human", "gpt", "human"), texts, strict=True)]
    ]
    path.write_text(json.dumps(entries))
    return path


def test_tasks_of_conversations(folder: Path, conversations: Path) -> None:
    """Their goals and recipes, also where other files would be read first and their recipes close the cycle."""
    env = TextCraft(recipes=folder, tasks_of=conversations)
    assert env.spec.splits["train"] == (7, 300) and "test" not in env.spec.splits
    task = Task("textcraft", 7)
    assert (env.goal(task), env.difficulty(task)) == ("craft gold nugget", "depth 1")
    trail = asyncio.run(walk(env, task, follow(env.oracle(task))))
    assert trail.first.text == START.format("gold nugget") and trail.reward == 1
    assert env.goal(Task("textcraft", env.spec.splits["test_variants"][0])).startswith("craft ")
    with pytest.raises(TaskNotFound, match="textcraft_8 is not in the file of the option tasks_of"):
        env.goal(Task("textcraft", 8))


@pytest.mark.parametrize(
    ("was", "becomes", "fault"),
    [
        ("craft 4 oak planks", "craft 3 oak planks", "textcraft_7 has 'craft 3 oak planks using 1 oak log', which"),
        ("Goal: craft oak planks", "Goal: craft bow", "textcraft_300 has 'bow', which .* has no recipe for"),
        ("Goal: craft oak", "Make oak", "textcraft_300 does not begin with crafting commands and a goal"),
    ],
)
def test_conversations_that_do_not_fit(folder: Path, conversations: Path, was: str, becomes: str, fault: str) -> None:
    conversations.write_text(conversations.read_text().replace(was, becomes))
    with pytest.raises(ValueError, match=fault):
        TextCraft(recipes=folder, tasks_of=conversations)


def test_options_that_do_not_go_together(conversations: Path) -> None:
    with pytest.raises(ValueError, match="tasks_of needs recipes=FOLDER"):
        TextCraft(tasks_of=conversations)
    with pytest.raises(ValueError, match="for the style agentgym, not compact"):
        TextCraft("compact", wording="agentgym-exact")
    with pytest.raises(ValueError, match="wording 'exact' is unknown; choose own or agentgym-exact"):
        make("textcraft", wording="exact")


def test_unusable_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no recipe folder at .*missing"):
        TextCraft(recipes=tmp_path / "missing")
    with pytest.raises(ValueError, match=str(tmp_path)):
        TextCraft(recipes=tmp_path)
    write(tmp_path, "broken", type="minecraft:crafting_shaped", pattern=["#"])
    with pytest.raises(ValueError, match=r"broken\.json"):
        TextCraft(recipes=str(tmp_path))
    write(tmp_path, "broken", type="minecraft:crafting_shapeless", ingredients=[[]], result="minecraft:stick")
    with pytest.raises(ValueError, match=r"broken\.json is not a Minecraft recipe"):
        TextCraft(recipes=str(tmp_path))


def test_a_recipe_is_itself_in_another_process():
    """Hashes of text differ between processes, so a recipe must not bring its own along."""
    recipe = Recipe(Stack("a", 1), (Stack("b", 2),))
    code = (
        "import pickle, sys; from agentgym_rl.envs.textcraft.recipe import Recipe, Stack; "
        "print(pickle.loads(sys.stdin.buffer.read()) in {Recipe(Stack('a', 1), (Stack('b', 2),))})"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(recipe), capture_output=True, env=environment)
    assert run.stdout.decode().strip() == "True"
