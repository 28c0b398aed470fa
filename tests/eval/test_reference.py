"""The random policy and the oracle are bounds by the same rules as the model."""

import asyncio

import pytest

from agentgym_rl.data.panels import select
from agentgym_rl.eval.reference import reference
from agentgym_rl.rollout.settings import RolloutSettings

pytestmark = pytest.mark.usefixtures("toys")


def bound(env, policy, style="compact", **settings):
    panel = select(env, "test")
    return asyncio.run(reference(panel, policy, RolloutSettings(style=style, **settings), {}))


@pytest.mark.parametrize("style", ["compact", "agentgym"])
def test_the_oracle_solves_all_and_the_random_policy_some(style):
    oracle, chance = bound("counter", "oracle", style=style), bound("counter", "random", style=style)
    assert (oracle.success, oracle.reward, oracle.n, oracle.error_rate) == (1.0, 1.0, 10, 0.0)
    assert 0 <= chance.success < 1.0 and chance.n == 10
    assert oracle.turns == 2.0  # lengths 2, 3, 1, 2, 3, 1, 2, 3, 1, 2
    assert bound("counter", "random", style=style) == chance


def test_the_turn_limit_bounds_the_oracle_too():
    assert bound("counter", "oracle", max_turns=1).success == 0.3  # three of the ten tasks take one action
    assert bound("counter", "oracle", max_turns=2).success == 0.7


def test_a_task_without_an_oracle_counts_as_failed():
    lost = bound("plain", "oracle")
    assert (lost.success, lost.n, lost.error_rate) == (0.0, 10, 0.0)


def test_a_false_oracle_is_no_bound_of_ones():
    assert bound("false_oracle", "oracle").success == 0.0


def test_there_is_no_random_bound_where_nothing_can_be_chosen():
    assert bound("plain", "random") is None
