"""BabyAI in the words of AgentGym's server, against what that server said.

``babyai_agentgym.json`` holds digests of its texts in random walks (``benchmarks/agentgym_texts.py --record``), and
what it says of actions that it refuses.
"""

import asyncio
import json
from pathlib import Path

import pytest

from agentgym_rl.envs import make
from agentgym_rl.envs.babyai import BabyAI
from agentgym_rl.envs.babyai.levels import LEVELS
from agentgym_rl.envs.core import Task
from agentgym_rl.envs.picture import Transcript
from agentgym_rl.envs.probe import follow, walk, wander
from agentgym_rl.envs.splits import fingerprint

SAID = json.loads((Path(__file__).with_name("babyai_agentgym.json")).read_text())


@pytest.fixture
def env():
    return BabyAI(wording="agentgym-exact")


def texts(trail):
    return [trail.first.text, *(step.observation.text for step in trail.steps)]


def play(env, task, *actions):
    return asyncio.run(walk(env, task, follow(actions)))


@pytest.mark.slow
def test_walks_are_the_servers_text(env):
    """Three of each level."""
    differing = []
    for item_id, digest in SAID["walks"].items():
        task = Task.parse(item_id)
        trail = asyncio.run(walk(env, task, wander(task)))
        if fingerprint(json.dumps([trail.actions, texts(trail)]), 12) != digest:
            differing.append(item_id)
    assert differing == []
    assert len(SAID["walks"]) == 3 * len(LEVELS)


@pytest.mark.parametrize("refusal", SAID["refusals"], ids=lambda refusal: refusal["says"][:40])
def test_refusals_are_the_servers_text(env, refusal):
    trail = play(env, Task.parse(refusal["item_id"]), *refusal["actions"])
    last = trail.steps[-1]
    assert last.observation.text.partition("\n")[0] == refusal["says"]
    assert last.info["invalid"] == ("No change" in refusal["says"] or "any objects" not in refusal["says"])
    assert fingerprint(json.dumps(texts(trail)), 12) == refusal["texts"]


def test_a_door_that_fulfils_the_mission_pays(env):
    """The server overwrites the reward with that of the step through the door."""
    task = Task("babyai", LEVELS.index("OpenRedDoor"))
    step = play(env, task, "toggle and go through red closed door 1").steps[-1]
    assert step.terminated
    assert step.reward == pytest.approx(1 - 0.9 * 3 / 50)
    assert "completed" not in step.observation.text  # nor does it say so


def test_the_goal_does_not_tell_the_order(env):
    tasks = [Task("babyai", index) for index in range(LEVELS.index("OpenDoorsOrderN4Debug"), 400, 40)]
    plain, exact = ([level.goal(task) for task in tasks] for level in (BabyAI(), env))
    assert any("then" in goal or "after you" in goal for goal in plain)
    assert exact == [goal.replace("then", "and").replace("after you", "and") for goal in plain]


def test_oracle_solves_in_the_servers_commands(env):
    for name in ("GoToRedBall", "OpenRedDoor", "PickupLoc", "PutNextS7N4Carrying", "Unlock"):
        task = Task("babyai", LEVELS.index(name))
        assert play(env, task, *env.oracle(task)).reward > 0, name


def test_pictures_replay_it(env):
    task = Task("babyai", 0)
    trail = play(env, task, "turn left", "dance", "move forward")
    turns = tuple((action, step.observation.text) for action, step in zip(trail.actions, trail.steps, strict=True))
    assert all(BabyAI.pictures(Transcript(str(task), trail.first.text, turns)))


def test_the_instruction_names_the_servers_actions(env):
    plain, exact = BabyAI().spec.instructions["agentgym"], env.spec.instructions["agentgym"]
    assert "- pickup: " in plain and "- pickup: " not in exact


def test_wrong_wordings_are_refused():
    with pytest.raises(ValueError, match="wording 'exact' is unknown; choose own or agentgym-exact"):
        make("babyai", wording="exact")
    with pytest.raises(ValueError, match="of the style agentgym, not of compact"):
        make("babyai", wording="agentgym-exact", style="compact")
