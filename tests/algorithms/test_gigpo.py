"""Step-level advantages, by hand and on a world."""

import asyncio
import math

import pytest
import toy
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.gigpo import anchors, answered, returns, step_advantages
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.envs import Task
from agentgym_rl.rollout.conversation import Scripted
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.settings import RolloutSettings


def episode(observations, rewards):
    """``observations[t]`` is what turn t answers; an instruction and a canned reply stand before the first."""
    messages = [{"role": "user", "content": "rules"}, {"role": "assistant", "content": "OK."}]
    for observation in observations:
        messages += [{"role": "user", "content": observation}, {"role": "assistant", "content": "do"}]
    turns = [Turn(response="do", action="do", observation="later", reward=reward, invalid=False) for reward in rewards]
    return Episode(
        env="e", item_id="e_1", ending=Ending.TERMINATED, reward=sum(rewards), success=False, horizon=9,
        messages=messages, turns=turns,
    )  # fmt: skip


def test_what_a_turn_answered():
    one = episode(["start", "hall"], [0.0, 1.0])
    assert answered(one) == ["start", "hall"]
    one.messages.append({"role": "user", "content": "shown, but no room for a reply"})
    assert answered(one) == ["start", "hall"]
    assert answered(episode([], [])) == []


def test_what_a_turn_answered_in_a_real_episode():
    replies = iter(["Action: say 1", "no action", "Action: say 2", "Action: say 3"])
    conversation = Scripted(lambda _: next(replies))
    played, _ = asyncio.run(run_episode(toy.Counter, Task("counter", 2), lambda: conversation, RolloutSettings()))
    assert played.success and len(played.turns) == 4
    assert answered(played) == ["Count to 3.", *(turn.observation for turn in played.turns[:3])]


def test_returns():
    assert returns([0.0, 0.0, 1.0], 0.5) == [0.25, 0.5, 1.0]
    assert returns([0.5, 0.0, 1.0], 1.0) == [1.5, 1.0, 1.0]
    assert returns([], 0.9) == []


WON = (["start", "hall", "door"], [0.0, 0.0, 1.0])
LOST = (["start", "hall", "hall"], [0.0, 0.0, 0.0])


def test_step_advantages_by_hand():
    episodes = [episode(*WON), episode(*LOST), episode(["start", "pit"], [0.0, 0.0])]
    found = step_advantages(episodes, ["g"] * 3, gamma=0.5, by_std=False)
    start, hall = [0.25, 0.0, 0.0], [0.5, 0.0, 0.0]
    assert found == [
        pytest.approx([0.25 - sum(start) / 3, 0.5 - sum(hall) / 3, 0.0]),  # nobody else stood at the door
        pytest.approx([0.0 - sum(start) / 3, 0.0 - sum(hall) / 3, 0.0 - sum(hall) / 3]),  # stayed in the hall
        pytest.approx([0.0 - sum(start) / 3, 0.0]),
    ]
    by_std = step_advantages(episodes, ["g"] * 3, gamma=0.5, by_std=True)
    mean = sum(hall) / 3
    deviation = math.sqrt(sum((value - mean) ** 2 for value in hall) / 2)
    assert by_std[0][1] == pytest.approx((0.5 - mean) / deviation, rel=1e-4)


def test_groups_are_kept_apart():
    episodes = [episode(*WON), episode(*LOST)]
    assert step_advantages(episodes, ["g", "h"], gamma=1.0, by_std=False) == [[0, 0, 0], [0, 0, 0]]
    assert anchors(episodes, ["g", "h"])[1] == [("h", "start"), ("h", "hall"), ("h", "hall")]


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("xyz"), st.floats(0, 1, width=16)), max_size=5), st.sampled_from("gh")
        ),
        max_size=6,
    ),
    st.floats(0, 1),
    st.booleans(),
)
def test_steps_of_an_anchor_sum_to_nothing(played, gamma, by_std):
    episodes = [episode([seen for seen, _ in turns], [reward for _, reward in turns]) for turns, _ in played]
    groups = [group for _, group in played]
    found = step_advantages(episodes, groups, gamma=gamma, by_std=by_std)
    assert [len(own) for own in found] == [len(one.turns) for one in episodes]
    sums: dict = {}
    for own, where in zip(found, anchors(episodes, groups), strict=True):
        for value, anchor in zip(own, where, strict=True):
            sums[anchor] = sums.get(anchor, 0.0) + value
    assert all(total == pytest.approx(0.0, abs=1e-3) for total in sums.values())
