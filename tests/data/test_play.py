"""One task, one policy, one transcript."""

import asyncio

import pytest
import toy

from agentgym_rl.data.play import StopPlaying, play
from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.core import ACKNOWLEDGEMENT, Observation, Step, Task

TASK = Task("counter", 2)  # counts to 3


def scripted(*replies):
    rest = list(replies)

    def policy(messages):
        if not rest:
            raise StopPlaying
        return rest.pop(0)

    return policy


def run(*replies, env=None, **arguments):
    return asyncio.run(play(env or toy.Counter(), TASK, scripted(*replies), **arguments))


def test_a_solved_task():
    transcript = run("Thought: up\nAction: say 1", "Action: say 2", "Action: say 3")
    assert (transcript.success, transcript.ending, transcript.invalid) == (True, "terminated", 0)
    assert transcript.rewards == [0.0, 0.0, 1.0]
    assert (transcript.turns, transcript.reward) == (3, 1.0)
    assert [message["role"] for message in transcript.messages] == ["user", "assistant"] * 4 + ["user"]
    assert transcript.messages[1]["content"] == ACKNOWLEDGEMENT
    assert transcript.messages[2]["content"] == "Count to 3."
    assert transcript.messages[3]["content"] == "Thought: up\nAction: say 1"
    assert transcript.messages[-1]["content"] == "Done."
    assert transcript.start == 2


def test_compact_start_is_a_system_message():
    transcript = run(env=toy.Counter("compact"))
    assert transcript.messages == [{"role": "system", "content": "say N"}, {"role": "user", "content": "Count to 3."}]
    assert (transcript.start, transcript.ending, transcript.turns) == (1, "stopped", 0)


def test_a_lost_task():
    transcript = run("Action: say 7")
    assert (transcript.success, transcript.ending) == (False, "terminated")


def test_unreadable_replies_use_up_turns_without_reaching_the_world():
    transcript = run("Action: say 1\nAction: say 2", "Action: say 1", "hm", max_turns=3)
    assert (transcript.invalid, transcript.turns, transcript.ending) == (2, 3, "turn_limit")
    assert "just one" in transcript.messages[4]["content"]
    assert transcript.messages[6]["content"] == "Right."


def test_default_turn_limit_is_the_worlds():
    assert run(*["Action: look"] * 9).turns == toy.Counter().spec.max_turns
    with pytest.raises(ValueError, match="max_turns is 0"):
        run(max_turns=0)


def test_truncation_is_not_termination():
    class Closing(toy.Counter):
        async def step(self, action):
            return Step(Observation("The hall closes."), 0.0, False, truncated=True)

    assert run("Action: say 1", env=Closing()).ending == "truncated"


def test_watch_and_parse():
    seen = []
    run("say 1", "say 2", parse=Action, watch=lambda action, step: seen.append((action, step.observation.text)))
    assert seen == [(None, "Count to 3."), ("say 1", "Right."), ("say 2", "Right.")]


def test_a_policy_sees_the_whole_conversation():
    lengths = []

    def policy(messages):
        lengths.append(len(messages))
        return "Action: look"

    asyncio.run(play(toy.Counter(), TASK, policy, max_turns=3))
    assert lengths == [3, 5, 7]
