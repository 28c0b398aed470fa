"""Algorithms learn from a program that plays an environment's tasks as from the environment itself."""

import asyncio
import json

import pytest
from test_agent_loop import SOLUTION, episode_of, run, server_for

from agentgym_rl.algorithms.agentevol import AgentEvol, AgentEvolConfig
from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.curriculum.stepwise import Stepwise, StepwiseConfig
from agentgym_rl.algorithms.gigpo import GiGPO, GiGPOConfig
from agentgym_rl.data.episode import Ending
from agentgym_rl.envs import make
from agentgym_rl.envs.core import Task
from agentgym_rl.rollout.harness import training
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.supervised import Example

pytestmark = pytest.mark.usefixtures("toys")
pytest.importorskip("fcntl", reason="POSIX only")

PLAYER = """
import json, os
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

def post(url, body):
    head = {"Authorization": "Bearer " + os.environ["AGENTGYM_KEY"]}
    with build_opener(ProxyHandler({})).open(Request(url, json.dumps(body).encode(), head)) as told:
        return json.load(told)

def ask():
    try:
        told = post(os.environ["AGENTGYM_BASE_URL"] + "/chat/completions", {"messages": messages})
    except HTTPError as error:
        assert json.load(error)["error"]["code"] == "turn_limit"
        open(os.environ["SEEN"], "w").close()
        raise SystemExit
    return told["choices"][0]["message"]

messages, due = json.loads(os.environ["OPENING"]), 1
while due < 4:
    said = ask()
    number = said["content"].rpartition("Action: say ")[2]
    if number.isdecimal() and int(number) != due:
        break
    due += number.isdecimal()
    observation = "Right." if number.isdecimal() else "I do not understand."
    messages += [said, {"role": "user", "content": observation}]
post(os.environ["AGENTGYM_REWARD_URL"], {"reward": float(due == 4)})
"""
"""Counts to three, as the environment of the tests does, and leaves a file where it sees the limit of turns."""


@pytest.fixture
def played(tokenizer, tmp_path):
    """What an environment and then a program make of the model's replies: an output of the agent loop each."""
    file = tmp_path / "player.py"
    file.write_text(PLAYER)

    def play(*replies, **row):
        itself = run(tokenizer, server_for(tokenizer, *replies), **row)
        opening = episode_of(itself).messages[: episode_of(itself).start]
        variables = {"OPENING": json.dumps(opening), "SEEN": str(tmp_path / "seen")}
        harness = {"command": ["python", str(file)], "env": variables}
        return itself, run(tokenizer, server_for(tokenizer, *replies), envs={"counter": {"harness": harness}}, **row)

    return play


def rollout(output):
    ids = output.prompt_ids + output.response_ids
    weights = [0.0] * len(output.prompt_ids) + [float(weight) for weight in output.response_mask]
    return Rollout(
        episode=episode_of(output), segments=(Example(ids, weights, len(output.prompt_ids)),), group="counter_2"
    )


ONE, TWO, THREE = SOLUTION
GROUP = [(ONE, TWO, THREE), (ONE, "no action", TWO, THREE), (ONE, THREE)]
"""The replies of three episodes of a task: won, won after a detour, lost."""


def test_credit_per_turn_and_successes_are_those_of_the_environment_itself(played):
    pairs = [played(*replies) for replies in GROUP]
    for itself, program in pairs:
        for name in ("prompt_ids", "response_ids", "response_mask", "response_logprobs", "reward_score", "num_turns"):
            assert getattr(itself, name) == getattr(program, name), name
    itself, program = ([rollout(output) for output in side] for side in zip(*pairs, strict=True))
    credit = [GiGPO(GiGPOConfig(gamma=0.9)).advantages(side) for side in (itself, program)]
    assert credit[0] == credit[1] and len({*credit[0][0]}) > 1, "the turns of an episode differ"
    learned = []
    for side in (itself, program):
        evolving = AgentEvol(AgentEvolConfig(max_per_task=2))
        successes, _ = evolving.keep(1, side)
        assert successes == side[:2]
        learned.append(evolving.rows())
    assert [(row.segment, row.streams) for row in learned[0]] == [(row.segment, row.streams) for row in learned[1]]


def test_the_limit_of_a_curriculum_is_an_error_that_the_program_sees(played, tmp_path):
    curriculum, seen = Stepwise(StepwiseConfig(rounds=[2, 3], steps=1)), tmp_path / "seen"
    for step, ending in ((1, Ending.TURN_LIMIT), (2, Ending.TERMINATED)):
        limit = curriculum.max_turns(step)
        for output in played(*SOLUTION, max_turns=limit):
            episode = episode_of(output)
            assert (episode.ending, episode.max_turns, len(episode.turns)) == (ending, limit, limit)
            assert episode.reward == (ending is Ending.TERMINATED)
        assert seen.exists() == (ending is Ending.TURN_LIMIT)
        seen.unlink(missing_ok=True)


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_programs_run_at_once_than_allowed(monkeypatch, most):
    running, seen = set(), []

    async def program(harness, work, *_):
        running.add(work.sample)
        seen.append(len(running))
        await asyncio.sleep(0.01)
        running.remove(work.sample)

    monkeypatch.setattr(training, "run_harness", program)
    rules = {"command": ["true"], "concurrency": most}

    async def play():
        task, settings = Task("maze", 30), RolloutSettings()
        episodes = [
            training.run_in_training(rules, lambda: make("maze"), task, {}, settings, 6, sample, "")
            for sample in range(5)
        ]
        await asyncio.gather(*episodes)

    asyncio.run(play())
    assert len(seen) == 5 and max(seen) == most
