"""Step-level advantages, by hand and on an environment."""

import asyncio
import math

import pytest
import toy
from episodes import visiting as episode
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.gigpo import GiGPO, GiGPOConfig
from agentgym_rl.algorithms.step_credit import anchors, returns
from agentgym_rl.envs import Task
from agentgym_rl.rollout.conversation import Scripted
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.settings import RolloutSettings


def step_advantages(group, *, gamma, by_std):
    return GiGPO(GiGPOConfig(gamma=gamma, normalise_by_std=by_std)).of_steps(group)


def test_what_a_turn_anchors():
    won = episode(["start", "hall"], [0.0, 1.0])
    assert anchors(won) == ["start", "hall"]
    won.messages.append({"role": "user", "content": "shown, but no room for a reply"})
    assert anchors(won) == ["start", "hall"]
    assert anchors(episode([], [])) == []


def test_the_anchors_of_an_episode_in_a_real_episode():
    replies = iter(["Action: say 1", "no action", "Action: say 2", "Action: say 3"])
    conversation = Scripted(lambda _: next(replies))
    played, _ = asyncio.run(run_episode(toy.Counter, Task("counter", 2), lambda: conversation, RolloutSettings()))
    assert played.success and len(played.turns) == 4
    assert anchors(played) == ["Count to 3.", *(turn.observation for turn in played.turns[:3])]


def test_returns():
    assert returns([0.0, 0.0, 1.0], 0.5) == [0.25, 0.5, 1.0]
    assert returns([0.5, 0.0, 1.0], 1.0) == [1.5, 1.0, 1.0]
    assert returns([], 0.9) == []


WON = (["start", "hall", "door"], [0.0, 0.0, 1.0])
LOST = (["start", "hall", "hall"], [0.0, 0.0, 0.0])


def test_step_advantages_by_hand():
    episodes = [episode(*WON), episode(*LOST), episode(["start", "pit"], [0.0, 0.0])]
    advantages = step_advantages(episodes, gamma=0.5, by_std=False)
    start, hall = [0.25, 0.0, 0.0], [0.5, 0.0, 0.0]
    assert advantages == [
        pytest.approx([0.25 - sum(start) / 3, 0.5 - sum(hall) / 3, 0.0]),  # nobody else stood at the door
        pytest.approx([0.0 - sum(start) / 3, 0.0 - sum(hall) / 3, 0.0 - sum(hall) / 3]),  # stayed in the hall
        pytest.approx([0.0 - sum(start) / 3, 0.0]),
    ]
    by_std = step_advantages(episodes, gamma=0.5, by_std=True)
    mean = sum(hall) / 3
    deviation = math.sqrt(sum((value - mean) ** 2 for value in hall) / 2)
    assert by_std[0][1] == pytest.approx((0.5 - mean) / deviation, rel=1e-4)


def test_groups_are_kept_apart():
    rollouts = [Rollout(episode=episode(*outcome), group=group) for outcome, group in ((WON, "g"), (LOST, "h"))]
    algorithm = GiGPO(GiGPOConfig(gamma=1.0))
    assert algorithm.advantages(rollouts) == [[0, 0, 0], [0, 0, 0]]
    alone = {"credit/step_groups": 1.0, "credit/shared_turns_frac": 2 / 6, "credit/step_advantage_abs": 0.0}
    assert algorithm.metrics(rollouts) == alone


def test_a_step_without_turns_has_no_figure():
    assert GiGPO(GiGPOConfig()).metrics([]) == {}


def test_the_size_of_step_advantages_is_over_all_turns():
    rollouts = [Rollout(episode=episode(*outcome), group="g") for outcome in (WON, LOST)]
    config = GiGPOConfig(gamma=0.5, normalise_by_std=False)
    steps = step_advantages([rollout.episode for rollout in rollouts], gamma=0.5, by_std=False)
    size = sum(abs(advantage) for advantages in steps for advantage in advantages) / 6
    assert size > 0
    assert GiGPO(config).metrics(rollouts)["credit/step_advantage_abs"] == pytest.approx(size)


def test_a_turn_has_the_advantage_of_its_episode_and_of_its_step():
    group = [episode(*WON), episode(*LOST)]
    config = GiGPOConfig(gamma=0.5, step_weight=2.0, normalise_by_std=False)
    steps = step_advantages(group, gamma=0.5, by_std=False)
    assert GiGPO(config).credit(group) == [
        pytest.approx([0.5 + 2 * step for step in steps[0]]),
        pytest.approx([-0.5 + 2 * step for step in steps[1]]),
    ]


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("xyz"), st.floats(0, 1, width=16)), max_size=5), max_size=6),
    st.floats(0, 1),
    st.booleans(),
)
def test_steps_of_an_anchor_sum_to_nothing(group, gamma, by_std):
    episodes = [episode([seen for seen, _ in turns], [reward for _, reward in turns]) for turns in group]
    advantages = step_advantages(episodes, gamma=gamma, by_std=by_std)
    assert [len(values) for values in advantages] == [len(own_episode.turns) for own_episode in episodes]
    sums: dict = {}
    for values, own_episode in zip(advantages, episodes, strict=True):
        for value, anchor in zip(values, anchors(own_episode), strict=True):
            sums[anchor] = sums.get(anchor, 0.0) + value
    assert all(total == pytest.approx(0.0, abs=1e-3) for total in sums.values())
