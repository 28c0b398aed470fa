"""ScienceWorld as an agent meets it. All tests share one Java process; without Java they are skipped.

The checker (``agentgym-rl check sciworld``) compares processes as well, each of which starts Java; here a transcript
written out stands for that. Random actions are some 1,000, since each takes the simulator about 10 milliseconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest
from sweep import swept

pytest.importorskip("scienceworld", reason="the extra sciworld is not installed")

from scienceworld.constants import ID2TASK

from agentgym_rl.envs import Step, Task
from agentgym_rl.envs.checks import CHECKS, Subject
from agentgym_rl.envs.core import Observation, OracleUnavailable, Style
from agentgym_rl.envs.hosts import LocalHost
from agentgym_rl.envs.probe import GARBAGE, digest, follow, walk
from agentgym_rl.envs.sciworld import SciWorld
from agentgym_rl.envs.sciworld.games import FAMILIES, STARTS
from agentgym_rl.envs.sciworld.pool import POOL
from agentgym_rl.envs.sciworld.wording import MAX_OBSERVATION_CHARACTERS

pytestmark = pytest.mark.java

LEFT_OUT = {"2-3", "5-1", "5-2", "9-1", "9-2", "9-3", "10-1", "10-2"}
GAME = Task("sciworld", 3086)
"""A short one: find a non-living thing."""

KITCHEN = """\
This room is called the kitchen. In it, you see: 
	the agent
	a substance called air
	a chair. On the chair is: nothing.
	a counter. On the counter is: a bowl (containing a red apple, a banana, an orange, a potato), a drawer.
	a cupboard. The cupboard door is closed. 
	a freezer. The freezer door is closed. 
	a fridge. The fridge door is closed. 
	a glass jar (containing a substance called sodium chloride)
	a lighter
	a oven, which is turned off. The oven door is closed. 
	a painting
	a red box (containing nothing)
	a sink, which is turned off. In the sink is: nothing.
	a substance called soap
	a stopwatch, which is deactivated. 
	a stove, which is turned off. On the stove is: nothing.
	a table. On the table is: a glass cup (containing nothing).
	a thermometer, currently reading a temperature of 10 degrees celsius
You also see:
	A door to the bathroom (that is closed)
	A door to the hallway (that is closed)
	A door to the outside (that is closed)"""  # noqa: W291

GOAL = (
    "Your task is to find a(n) non-living thing. First, focus on the thing. "
    "Then, move it to the red box in the kitchen."
)


@pytest.fixture(scope="module", autouse=True)
def one_java_process_for_all() -> Iterator[None]:
    before = sum(member.leases for member in POOL.members)
    yield
    assert len(POOL.members) <= 1 and sum(member.leases for member in POOL.members) == before


def play(world: SciWorld, task: Task, *actions: str) -> tuple[Observation, list[Step]]:
    """Actions until the episode ends."""
    first = world._reset_blocking(task)
    steps: list[Step] = []
    for action in actions:
        steps.append(world._step_blocking(action))
        if steps[-1].done:
            break
    world._close_blocking()
    return first, steps


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (
            "agentgym",
            [
                f"{GOAL}\n{KITCHEN}",
                "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):\n"
                "0:\topen door between kitchen and hallway\n1:\topen door between bathroom and kitchen\n"
                "2:\topen door between kitchen and outside\n",
                "The door is now open.",
                "No known action matches that input.",
                "In your inventory, you see:\n\tan orange",
                "You focus on the lighter.",
                "You move the lighter to the red box.",
            ],
        ),
        (
            "compact",
            [
                f"{GOAL}\nkitchen: chair, counter with a bowl (containing a red apple, a banana, an orange, a potato), "
                "a drawer, cupboard closed, freezer closed, fridge closed, glass jar (containing sodium chloride), "
                "lighter, oven off closed, painting, red box, sink off, soap, stopwatch deactivated, stove off, table "
                "with a glass cup, thermometer 10 degrees; doors: bathroom closed, hallway closed, outside closed",
                "which number: 0: open door between kitchen and hallway, 1: open door between bathroom and kitchen, "
                "2: open door between kitchen and outside",
                "The door is now open",
                "invalid",
                "inventory: orange",
                "You focus on the lighter",
                "You move the lighter to the red box",
            ],
        ),
    ],
)
def test_transcript(style: Style, expected: list[str]) -> None:
    actions = ["open door", "0", "qwzx", "inventory", "focus on lighter", "move lighter to red box"]
    first, steps = play(SciWorld(style), GAME, *actions)
    assert [first.text, *(step.observation.text for step in steps)] == expected
    assert [step.reward for step in steps] == pytest.approx([0.08, 0.09, 0, 0, 0.5, 0.33])
    assert [step.info["raw_reward"] for step in steps] == [8, 17, 17, 17, 67, 100]
    assert [step.info["invalid"] for step in steps] == [False, False, True, False, False, False]
    assert [step.info["moves"] for step in steps] == [0, 1, 1, 1, 2, 3]
    assert [step.terminated for step in steps] == [False] * 5 + [True]


def test_the_wrong_focus_loses() -> None:
    _, (step,) = play(SciWorld(), Task("sciworld", 3), "focus on axe", "look around")
    assert (step.reward, step.terminated, step.info["raw_reward"]) == (0.0, True, -100.0)


def test_waiting_runs_out_of_moves() -> None:
    _, steps = play(SciWorld(), GAME, *["wait"] * 20)
    assert len(steps) < 12 and steps[-1].truncated and not steps[-1].terminated
    assert steps[-2].info["moves"] <= 100 < steps[-1].info["moves"]


def test_simplifications() -> None:
    _, (plain,) = play(SciWorld(), GAME, "teleport to workshop")
    _, (easy,) = play(SciWorld(simplifications="teleportAction"), GAME, "teleport to workshop")
    assert plain.info["invalid"] and easy.observation.text == "You teleport to the workshop."


def test_simplifications_of_other_sessions_change_nothing() -> None:
    actions = ("teleport to greenhouse", "wait1", "look around")
    options = ("teleportAction", "teleportAction,selfWateringFlowerPots")
    alone = [play(SciWorld(simplifications=names), GAME, *actions)[1][-1].observation.text for names in options]
    sessions = [SciWorld(simplifications=names) for names in options]
    for session in sessions:
        session._reset_blocking(GAME)
    together = [[session._step_blocking(action).observation.text for session in sessions] for action in actions]
    for session in sessions:
        session._close_blocking()
    assert together[-1] == alone and alone[0] != alone[1]


def test_oracle_says_why_there_is_none() -> None:
    assert SciWorld().oracle(GAME) == ["look around", "focus on lighter", "move lighter to red box"]
    with pytest.raises(OracleUnavailable, match=r"sciworld_1097 \(power-component, variation 1\): .* in 3 moves"):
        SciWorld(step_limit=3).oracle(Task("sciworld", 1097))


def test_numbering_is_the_librarys() -> None:
    """The table of games is what the library says of tasks, variations and splits."""
    assert [family.name for family in FAMILIES] == [name for id, name in ID2TASK.items() if id not in LEFT_OUT]
    simulation = POOL.lease()
    try:
        java = simulation._java
        for family in FAMILIES:
            assert java.getTaskMaxVariations(family.name) == family.variations
            simulation.load(family.name, 0)
            assert list(java.getVariationsTrain()) == list(range(family.dev))
            assert list(java.getVariationsDev()) == list(range(family.dev, family.test))
            assert list(java.getVariationsTest()) == list(range(family.test, family.variations))
    finally:
        POOL.give_back(simulation)


VERBS = (
    *("open", "close", "activate", "deactivate", "disconnect", "use", "look at", "look in", "read", "pick up"),
    *("put down", "mix", "go to", "eat", "flush", "focus on", "examine"),
)
PAIRS = ("connect {} to {}", "use {} on {}", "move {} to {}", "pour {} into {}", "dunk {} into {}")
THINGS = (
    *(
        "door",
        "door to kitchen",
        "kitchen",
        "hallway",
        "outside",
        "cupboard",
        "thermometer",
        "metal pot",
        "sink",
        "water",
    ),
    *("stove", "freezer", "orange", "lighter", "bowl", "table", "air", "agent", "inventory", "battery", "recipe"),
)


def wander(seed: int, length: int) -> list[str]:
    """Random actions: commands that may make sense, numbers and garbage."""
    rng = random.Random(seed)
    actions = []
    for _ in range(length):
        kind = rng.random()
        if kind < 0.5:
            actions.append(f"{rng.choice(VERBS)} {rng.choice(THINGS)}")
        elif kind < 0.7:
            actions.append(rng.choice(PAIRS).format(rng.choice(THINGS), rng.choice(THINGS)))
        elif kind < 0.85:
            actions.append(rng.choice(("0", "1", "look around", "inventory", "task", "wait1", "reset task")))
        else:
            actions.append(rng.choice(GARBAGE))
    return actions


@pytest.mark.sweep
def test_random_actions_do_no_harm() -> None:
    rng = random.Random(0)
    tried = 0
    for family, start in zip(FAMILIES, STARTS, strict=False):
        if tried > swept(1_000):
            break
        style: Style = rng.choice(("agentgym", "compact"))
        task = Task("sciworld", start + rng.randrange(family.variations))
        first, steps = play(SciWorld(style, step_limit=500), task, *wander(task.index, 100))
        tried += len(steps)
        assert all(
            len(seen.text) <= MAX_OBSERVATION_CHARACTERS[style]
            for seen in (first, *(step.observation for step in steps))
        )
        assert all(0 <= step.reward <= 1 for step in steps) and sum(step.reward for step in steps) <= 1
    assert tried > swept(500)


TASKS = [Task("sciworld", index) for index in (3086, 1097, 3900)]


def test_games_do_not_disturb_each_other() -> None:
    """Games played at once, in threads, go as they go alone."""

    async def alone() -> list[str]:
        env = SciWorld()
        digests = [(await walk(env, task, follow(wander(task.index, 20)))).digest() for task in TASKS]
        await env.close()
        return digests

    async def together() -> list[str]:
        sessions = [SciWorld() for _ in TASKS]
        plays = (walk(env, task, follow(wander(task.index, 20))) for env, task in zip(sessions, TASKS, strict=True))
        trails = await asyncio.gather(*plays)
        for env in sessions:
            await env.close()
        return [trail.digest() for trail in trails]

    expected = asyncio.run(alone())
    assert asyncio.run(together()) == expected
    assert len(set(expected)) == len(TASKS)


def test_a_game_goes_the_same_way_in_every_process() -> None:
    """Things in one room are listed in the same order whatever was loaded before and in whichever process."""

    async def digests_here() -> dict[str, str]:
        world = SciWorld()
        digests = {str(task): await digest(world, task) for task in TASKS}
        await world.close()
        return digests

    assert asyncio.run(digests_here()) == {
        "sciworld_3086": "7de5f1239337",
        "sciworld_1097": "2ca2201a3ad2",
        "sciworld_3900": "0082e751ce35",
    }


LEFT = (
    "deterministic across processes",
    "garbage is an observation",
    "achieved goals earn success",
    "steps left count down",
)
CHEAP = [title for title in CHECKS if title not in LEFT]
"""Those that neither start Java again nor load a game for each action, nor need what the world does not tell."""


@pytest.mark.parametrize("title", CHEAP)
def test_keeps_the_contract(title: str) -> None:
    async def faults() -> list[str]:
        world = SciWorld("compact")
        subject = Subject("sciworld", {"style": "compact"}, world, TASKS[:2], tuple(world.spec.splits), LocalHost())
        try:
            return [fault async for fault in CHECKS[title](subject)]
        finally:
            await world.close()

    assert asyncio.run(faults()) == []
