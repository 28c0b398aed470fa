"""ALFWorld's built-in games as an agent meets them: commands, observations, endings."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import play
from sweep import swept

from agentgym_rl.envs import Task
from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.alfworld import MAX_STEPS, ALFWorld
from agentgym_rl.envs.alfworld.house import canonical
from agentgym_rl.envs.alfworld.tasks import SPLITS, game, kind
from agentgym_rl.envs.core import Style, TaskNotFound
from agentgym_rl.envs.probe import GARBAGE

HOT_MUG = (
    "look",
    "go to cabinet 2",
    "take mug 1 from cabinet 2",
    "OPEN  cabinet 2",
    "take mug 1 from cabinet 2",
    "examine mug 1",
    "close cabinet 2",
    "inventory",
    "go to microwave 1",
    "heat mug 1 with microwave 1",
    "examine mug 1",
    "look",
    "go to fridge 1",
    "put mug 1 in/on fridge 1",
    "open fridge 1",
    "move mug 1 to fridge 1",
)
ROOM = "You are in the middle of a room. Looking quickly around you, you see"


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (
            "agentgym",
            [
                f"{ROOM} a cabinet 2, a cabinet 1, a fridge 1, and a microwave 1.\n"
                "Your task is to: heat some mug and put it in fridge.\n"
                "AVAILABLE ACTIONS: go to cabinet 1,go to cabinet 2,go to fridge 1,go to microwave 1,inventory,look",
                f"{ROOM} nothing.",
                "The cabinet 2 is closed.",
                "Nothing happens.",
                "You open the cabinet 2. The cabinet 2 is open. In it, you see a mug 1, a peppershaker 1, "
                "and a saltshaker 1.",
                "You pick up the mug 1 from the cabinet 2.",
                "There's nothing special about mug 1.",
                "You close the cabinet 2.",
                "You are carrying: a mug 1.",
                "The microwave 1 is closed.",
                "You heat the mug 1 using the microwave 1.",
                "This is a hot mug 1.",
                "You are facing the microwave 1. Next to it, you see nothing.",
                "The fridge 1 is closed.",
                "Nothing happens.",
                "You open the fridge 1. The fridge 1 is open. In it, you see nothing.",
                "You put the mug 1 in/on the fridge 1.",
            ],
        ),
        (
            "compact",
            [
                "put a hot mug in fridge: cabinet 1, cabinet 2, fridge 1, microwave 1",
                "nothing",
                "cabinet 2 closed",
                "nothing happens",
                "cabinet 2: mug 1, peppershaker 1, saltshaker 1",
                "you have mug 1",
                "mug 1",
                "cabinet 2 closed",
                "you have mug 1",
                "microwave 1 closed",
                "mug 1 hot",
                "mug 1 hot",
                "microwave 1 closed",
                "fridge 1 closed",
                "nothing happens",
                "fridge 1: nothing",
                "mug 1 in fridge 1",
            ],
        ),
    ],
)
def test_transcript(style: Style, expected: list[str]) -> None:
    first, steps = play(ALFWorld(style), 10_009, *HOT_MUG)
    assert [first.text, *(step.observation.text for step in steps)] == expected
    assert [step.reward for step in steps] == [0.0] * 15 + [1.0]
    assert [step.terminated for step in steps] == [False] * 15 + [True]
    assert [turn for turn, step in enumerate(steps) if step.info["invalid"]] == [2, 13]
    assert steps[4].observation.actions == (
        "close cabinet 2",
        "examine cabinet 2",
        "examine mug 1",
        "go to cabinet 1",
        "go to fridge 1",
        "go to microwave 1",
        "inventory",
        "look",
        "put mug 1 in/on cabinet 2",
    )
    assert steps[-1].observation.actions == ()


def test_lamp() -> None:
    actions = ("go to dresser 1", "take desklamp 1 from dresser 1", "toggle desklamp 1")
    end = "take alarmclock 1 from dresser 1"
    _, steps = play(ALFWorld(), 10_003, *actions, end)
    assert [step.observation.text for step in steps] == [
        "On the dresser 1, you see a alarmclock 1, a desklamp 1, and a remotecontrol 1.",
        "Nothing happens.",
        "You turn on the desklamp 1.",
        "You pick up the alarmclock 1 from the dresser 1.",
    ]
    assert [step.reward for step in steps] == [0, 0, 0, 1]
    _, steps = play(ALFWorld("compact"), 10_003, *actions, "go to drawer 1", "go to dresser 1", end)
    assert [step.observation.text for step in steps][2:] == [
        "desklamp 1 on",
        "drawer 1 closed",
        "dresser 1: alarmclock 1, desklamp 1, remotecontrol 1",
        "you have alarmclock 1",
    ]
    assert steps[-1].terminated


def test_only_the_lamps_place_counts() -> None:
    away = ("go to dresser 1", "use desklamp 1", "go to drawer 1", "open drawer 1", "go to dresser 1")
    _, steps = play(ALFWorld(), 10_003, *away, "take remotecontrol 1 from dresser 1")
    assert not steps[-1].done


@pytest.mark.parametrize(
    ("action", "command"),
    [
        ("Go to  Drawer 1", "go to drawer 1"),
        ("put mug 1 in drawer 1", "put mug 1 in/on drawer 1"),
        ("put mug 1 on drawer 1", "put mug 1 in/on drawer 1"),
        ("put mug 1 into drawer 1", "put mug 1 in/on drawer 1"),
        ("put mug 1 in/on drawer 1", "put mug 1 in/on drawer 1"),
        ("move mug 1 to drawer 1", "put mug 1 in/on drawer 1"),
        ("toggle desklamp 1", "use desklamp 1"),
        ("put mug 1", "put mug 1"),
        ("go to", "go to"),
    ],
)
def test_other_ways_to_say_it(action: str, command: str) -> None:
    assert canonical(action) == command


@pytest.mark.parametrize(
    "action", ["", "go", "go to", "go to mug 1", "go to cabinet", "open fridge 1", "take mug 1", "help", "inventory 1"]
)
def test_what_is_not_possible_changes_nothing(action: str) -> None:
    _, (step, look) = play(ALFWorld(), 10_009, action, "inventory")
    assert step.observation.text == "Nothing happens."
    assert step.info["invalid"] and step.reward == 0
    assert step.observation.actions == look.observation.actions
    assert look.observation.text == "You are not carrying anything."


def test_heating_undoes_cooling_and_leaves_clean() -> None:
    index = next(
        index
        for index in SPLITS["train"]
        if kind(index) == ("medium", "pick_cool_then_place_in_recep")
        and {"microwave", "sinkbasin"} <= {receptacle.type for receptacle in game(index).receptacles}
        and game(index).goal.object in ("apple", "cup", "egg", "mug", "plate", "potato", "tomato")
    )
    env = ALFWorld()
    cooled = env.oracle(Task("alfworld", index))
    cooled = cooled[: next(place for place, command in enumerate(cooled) if command.startswith("cool ")) + 1]
    thing = " ".join(cooled[-1].split()[1:3])
    clean = ["go to sinkbasin 1", f"clean {thing} with sinkbasin 1", f"examine {thing}"]
    heat = ["go to microwave 1", f"heat {thing} with microwave 1", f"examine {thing}"]
    _, steps = play(env, index, *cooled, f"examine {thing}", *clean, *heat)
    examined = [step.observation.text for step in steps if step.observation.text.startswith("This is")]
    assert examined == [f"This is a {state} {thing}." for state in ("cold", "cool and clean", "hot and clean")]


@pytest.mark.parametrize("style", ["agentgym", "compact"])
def test_step_limit_truncates(style: Style) -> None:
    _, steps = play(ALFWorld(style), 10_000, *["look"] * (MAX_STEPS + 5))
    assert [step.done for step in steps] == [False] * (MAX_STEPS - 1) + [True]
    assert (steps[-1].truncated, steps[-1].terminated, steps[-1].observation.actions) == (True, False, ())
    assert sum(step.reward for step in steps) == 0


def test_success_with_the_last_action_is_success() -> None:
    env = ALFWorld()
    actions = env.oracle(Task("alfworld", 10_000))
    _, steps = play(env, 10_000, *["look"] * (MAX_STEPS - len(actions)), *actions)
    assert len(steps) == MAX_STEPS
    assert (steps[-1].terminated, steps[-1].truncated, steps[-1].reward) == (True, False, 1.0)


@pytest.mark.parametrize("index", [2620, 9999, SPLITS["test_variants"].stop, 10**15, -1])
def test_index_outside_the_world(index: int) -> None:
    for ask in (ALFWorld().goal, ALFWorld().difficulty, ALFWorld().oracle):
        with pytest.raises(TaskNotFound, match=f"no task {index}: valid are 10000 to 32319"):
            ask(Task("alfworld", index))


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("Thought:\nA mug.\n\nAction:\nput mug 1 in/on desk 1", "put mug 1 in/on desk 1"),
        ("Action:\nlook", "look"),
        ("Action: look Action: go to desk 1", "go to desk 1"),
        ("go to desk 1", ""),
    ],
)
def test_replies_are_read_as_agentgyms_client_does(reply: str, command: str) -> None:
    read = ALFWorld().spec.read(reply)
    assert isinstance(read, Action) and read.command == command


@pytest.mark.sweep
def test_random_walks_keep_the_contract() -> None:
    """Actions: possible ones, garbage, and commands with wrong names."""
    steps = 0
    rng = random.Random(0)
    wrong = ("take mug 1 from fridge 1", "put egg 2 in/on shelf 9", "go to fridge 0", "heat egg 1 with microwave 1")

    async def episode(env: ALFWorld, index: int) -> int:
        observation = await env.reset(Task("alfworld", index))
        done, total, count = False, 0.0, 0
        while not done:
            assert len(observation.text) <= 4000
            assert observation.actions is not None
            possible = rng.random() < 0.8
            action = rng.choice(observation.actions) if possible else rng.choice((*GARBAGE, *wrong))
            step = await env.step(action)
            assert step.info["invalid"] is not (action in observation.actions)
            assert step.reward in (0.0, 1.0)
            total += step.reward
            count += 1
            done, observation = step.done, step.observation
        assert total == float(step.terminated)
        assert count <= MAX_STEPS
        return count

    envs = ALFWorld(), ALFWorld("compact")
    indices = rng.sample(range(10_000, SPLITS["test_variants"].stop), 60)
    while steps < swept(10_000):
        steps += asyncio.run(episode(rng.choice(envs), rng.choice(indices)))


TASKS = st.integers(10_000, SPLITS["test_variants"][-1])


@settings(max_examples=swept(100), deadline=None)
@given(TASKS, st.lists(st.one_of(st.integers(0, 99), st.text(max_size=9)), max_size=30))
def test_both_wordings_tell_the_same_story(index: int, choices: list[int | str]) -> None:
    async def episode(style: Style) -> list[object]:
        env = ALFWorld(style)
        observation = await env.reset(Task("alfworld", index))
        story: list[object] = [observation.actions]
        for choice in choices:
            assert observation.actions is not None
            step = await env.step(
                choice if isinstance(choice, str) else observation.actions[choice % len(observation.actions)]
            )
            observation = step.observation
            story.append((observation.actions, step.reward, step.done, step.info))
            if step.done:
                break
        return story

    assert asyncio.run(episode("agentgym")) == asyncio.run(episode("compact"))
