"""Ten thousand random actions in every world: no exception, rewards that add up, observations within bounds."""

import asyncio
import random
import shutil

import pytest

from agentgym_rl.envs import Task, available, make
from agentgym_rl.envs.core import OracleUnavailable
from agentgym_rl.envs.probe import GARBAGE

ACTIONS = {"sciworld": 300}
"""Its engine takes milliseconds for a step; the others play :data:`MANY`."""
MANY = 10_000
ON_SERVERS = {"webshop", "webarena"}
SLOW_ORACLES = {"babyai", "sciworld"}
LONGEST = 4_000
"""Characters of an observation after the first one, which states the task."""
TURNS = 25


def plan(world, task):
    try:
        return world.oracle(task)
    except OracleUnavailable:
        return []


def scrambled(rng, command):
    """A command with some of its words moved, lost or doubled."""
    words = command.split()
    for _ in range(rng.randint(1, 3)):
        if words:
            at = rng.randrange(len(words))
            words.insert(rng.randrange(len(words)), words.pop(at) if rng.random() < 0.7 else words[at])
    return " ".join(words)


async def wander(name, actions):
    """Play tasks of all splits at random; the number of actions and the longest observation."""
    world, rng = make(name), random.Random(f"walks {name}")
    played, longest = 0, 0
    known = list(GARBAGE)
    splits = list(world.spec.splits.values())
    while played < actions:
        split = rng.choice(splits)
        task = Task(name, split[rng.randrange(len(split))])
        first = await world.reset(task)
        own = [] if name in SLOW_ORACLES else plan(world, task)
        known = [*known[-60:], *own]
        total, possible = 0.0, first.actions
        for turn in range(min(TURNS, actions - played)):
            source = rng.random()
            if source < 0.4 and possible:
                action = rng.choice(possible)
            elif source < 0.7 and turn < len(own):
                action = own[turn]
            else:
                action = rng.choice(known) if source < 0.85 else scrambled(rng, rng.choice(known))
            step = await world.step(action)
            played += 1
            total += step.reward
            possible = step.observation.actions
            longest = max(longest, len(step.observation.text))
            assert 0 <= step.reward <= 1 and total <= 1 + 1e-6, f"{task}: {action!r} earned {step.reward}"
            if step.done:
                break
    await world.close()
    return played, longest


@pytest.mark.parametrize("name", [name for name in available() if name not in ON_SERVERS])
def test_ten_thousand_actions_do_no_harm(name):
    if name == "sciworld" and shutil.which("java") is None:
        pytest.skip("ScienceWorld needs Java")
    wanted = ACTIONS.get(name, MANY)
    played, longest = asyncio.run(wander(name, wanted))
    assert played == wanted
    assert longest <= LONGEST
