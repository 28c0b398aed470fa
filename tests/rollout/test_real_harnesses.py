"""Agents that people have: OpenAI's client, an agent library, a shell script with curl."""

import asyncio
import shutil
from pathlib import Path

import pytest
from gateways import says

from agentgym_rl.data.episode import Ending
from agentgym_rl.envs import Task, make
from agentgym_rl.rollout.harness.run import assignment, run_harness
from agentgym_rl.rollout.harness.settings import Harness
from agentgym_rl.rollout.harness.shared import SharedGateway
from agentgym_rl.rollout.settings import RolloutSettings

pytest.importorskip("fcntl", reason="POSIX only")

HARNESSES = Path(__file__).parents[1] / "harnesses"
TASK = Task("textcraft", 0)


def play(replies, max_turns=30, **rules):
    """The episode of a harness whose model gives these replies."""
    work = assignment(make("textcraft"), TASK, max_turns)

    async def episode_of():
        shared = SharedGateway()
        episode, _ = await run_harness(
            Harness(**rules), work, RolloutSettings(retries=0), shared, lambda: says(*replies)
        )
        await shared.close()
        return episode

    episode = asyncio.run(episode_of())
    assert episode.ending.counts, episode.error
    return episode


def test_openais_client_plays_textcraft():
    pytest.importorskip("openai")
    solution = make("textcraft").oracle(TASK)
    command = ["python", str(HARNESSES / "openai_agent.py")]
    episode = play([f"Action: {action}" for action in solution], command=command)
    assert (episode.reward, len(episode.turns)) == (1, len(solution))
    assert 0 < play(["Action: look"], max_turns=2, command=command).reward < 1


@pytest.mark.slow
def test_an_agent_of_smolagents_plays_textcraft_through_a_tool():
    pytest.importorskip("smolagents")
    solution = make("textcraft").oracle(TASK)
    called = '<tool_call>{{"name": "{}", "arguments": {{"{}": "{}"}}}}</tool_call>'
    calls = [
        *(called.format("act", "command", action) for action in solution),
        called.format("final_answer", "answer", "done"),
    ]
    command = ["python", str(HARNESSES / "smolagents_agent.py")]
    episode = play(calls, command=command)
    assert (episode.reward, len(episode.turns)) == (1, len(calls))
    limited = play(["nothing to call"], max_turns=2, command=command)
    assert limited.reward < 1 and limited.ending is Ending.TERMINATED, "it sees the limit, and tells a reward"


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_a_shell_script_with_curl_leaves_its_reward_in_a_file():
    episode = play(["hello"], command=["sh", str(HARNESSES / "curl_agent.sh")], grade_file="reward.txt")
    assert 0 <= episode.reward < 1 and [turn.response for turn in episode.turns] == ["hello"]
