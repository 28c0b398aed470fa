"""TextCraft as an agent meets it: commands, observations, endings."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept

from agentgym_rl.envs import Step, Task, TextEnv
from agentgym_rl.envs.core import Style, TaskNotFound
from agentgym_rl.envs.textcraft import TextCraft


def play(env: TextEnv, index: int, *actions: str) -> tuple[str, list[Step]]:
    async def episode() -> tuple[str, list[Step]]:
        first = await env.reset(Task("textcraft", index))
        return first.text, [await env.step(action) for action in actions]

    return asyncio.run(episode())


def index_of(goal: str) -> int:
    env = TextCraft()
    return next(i for i in range(474) if env.goal(Task("textcraft", i)) == f"craft {goal}")


def texts(steps: list[Step]) -> list[str]:
    return [step.observation.text for step in steps]


ACTIONS = [
    "inventory",
    "get 3 string",
    "get 1 oak log",
    "craft 4 oak planks using 1 oak log",
    "craft 4 stick using 2 oak planks",
    "inventory",
    "craft 1 bow using 3 stick, 2 string",
    "craft 1 bow using 3 stick, 3 string",
]


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (
            "agentgym",
            [
                "Inventory: You are not carrying anything.",
                "Got 3 string",
                "Got 1 oak log",
                "Crafted 4 minecraft:oak_planks",
                "Crafted 4 minecraft:stick",
                "Inventory: [string] (3) [oak planks] (2) [stick] (4) ",
                "Could not find a valid recipe for minecraft:bow",
                "Crafted 1 minecraft:bow",
            ],
        ),
        (
            "compact",
            [
                "Inventory: empty",
                "Got 3 string",
                "Got 1 oak log",
                "Crafted 4 oak planks",
                "Crafted 4 stick",
                "Inventory: 3 string, 2 oak planks, 4 stick",
                "Could not find a valid recipe for bow",
                "Crafted 1 bow",
            ],
        ),
    ],
)
def test_transcript(style: Style, expected: list[str]) -> None:
    first, steps = play(TextCraft(style), index_of("bow"), *ACTIONS)
    assert first.splitlines()[0] == ("Recipes:" if style == "compact" else "Crafting commands:")
    assert first.endswith("\n\nGoal: craft bow.")
    assert texts(steps) == expected
    assert [step.reward for step in steps] == [0.0] * 7 + [1.0]
    assert [step.terminated for step in steps] == [False] * 7 + [True]
    assert [step.info["invalid"] for step in steps] == [False] * 6 + [True, False]


@pytest.mark.parametrize(
    ("action", "answer"),
    [
        ("", "Could not execute "),
        ("dance", "Could not execute dance"),
        ("get oak log", "Could not execute get oak log"),
        ("get 0 oak log", "Could not execute get 0 oak log"),
        ("get 10000000 oak log", "Could not execute get 10000000 oak log"),
        ("get 1 oak planks", "Could not find oak planks"),
        ("get 1 planks", "Could not find planks"),
        ("get 1 unicorn", "Could not find unicorn"),
        ("craft 4 oak planks using oak log", "Wrong item format: oak log"),
        ("craft 4 oak planks using 0 oak log", "Wrong item format: 0 oak log"),
        ("craft 0 oak planks using 1 oak log", "Could not execute craft 0 oak planks using 1 oak log"),
        ("craft 4 oak planks using 1 oak log", "Could not find enough items to craft minecraft:oak_planks"),
        ("craft 4 stick using 2 planks", "Could not find enough items to craft minecraft:stick"),
    ],
)
def test_action_that_cannot_be_carried_out(action: str, answer: str) -> None:
    _, (step,) = play(TextCraft(), 0, action)
    assert step.observation.text == answer
    assert step.info["invalid"]
    assert not step.done


def test_same_stack_is_not_counted_twice() -> None:
    _, steps = play(TextCraft(), 0, "get 1 oak log", "craft 4 oak planks using 1 oak log, 1 oak log")
    assert steps[1].observation.text == "Could not find enough items to craft minecraft:oak_planks"


@pytest.mark.parametrize("wood", ["oak", "cherry", "warped"])
def test_tag_takes_any_member(wood: str) -> None:
    log = "stem" if wood == "warped" else "log"
    actions = (
        f"get 2 {wood} {log}",
        f"craft 4 {wood} planks using 1 {wood} {log}",
        f"craft 4 stick using 2 {wood} planks",
    )
    assert texts(play(TextCraft(), 0, *actions)[1])[-1] == "Crafted 4 minecraft:stick"


@pytest.mark.parametrize("index", [474, 999, 1474, 1_000_000])
def test_index_outside_the_world(index: int) -> None:
    with pytest.raises(TaskNotFound, match=r"0\.\.473.*0\.\.999"):
        play(TextCraft(), index)


WORDS = [
    "craft",
    "get",
    "inventory",
    "using",
    ",",
    "1",
    "2",
    "4",
    "0",
    "99999999999",
    "oak log",
    "oak planks",
    "planks",
]
SENTENCES = st.lists(st.sampled_from([*WORDS, "stick", "string", "1 oak log", "2 planks"]), max_size=9).map(" ".join)


@settings(max_examples=swept(150), deadline=None)
@given(st.lists(st.one_of(SENTENCES, st.text()), max_size=8), st.sampled_from(["agentgym", "compact"]))
def test_no_action_raises(actions: list[str], style: Style) -> None:
    async def episode() -> None:
        env = TextCraft(style)
        await env.reset(Task("textcraft", 7))
        for action in actions:
            step = await env.step(action)
            assert 0.0 <= step.reward <= 1.0
            assert len(step.observation.text) < 2000
            if step.done:
                break

    asyncio.run(episode())


def test_exact_answers_are_agentgyms() -> None:
    """Its server prints an object where no recipe matches, and repeats commands whole."""
    actions = ("get 3 oak log", "craft 2 stick using 3 oak log", "craft planks using 3 oak log", "x" * 300)
    actions += ("craft 1 planks using 1 stick",)
    tag = "ItemTagWithCount(item_tag=ItemTag(tag='minecraft:planks', item_id=None), count=1)"
    item = "ItemTagWithCount(item_tag=ItemTag(tag=None, item_id='minecraft:stick'), count=2)"
    _, exact = play(TextCraft(wording="agentgym-exact"), index_of("bow"), *actions)
    assert texts(exact)[1:] == [
        f"Could not find a valid recipe for {item}",
        f"Could not find a valid recipe for {tag}",
        f"Could not execute {'x' * 300}",
        "Could not find enough items to craft None",
    ]
    _, plain = play(TextCraft(), index_of("bow"), *actions)
    assert [step.info for step in plain] == [step.info for step in exact]
    assert texts(plain)[1] == "Could not find a valid recipe for minecraft:stick" and len(texts(plain)[3]) < 300
