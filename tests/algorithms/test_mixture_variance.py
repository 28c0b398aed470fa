"""The variance of rewards within tasks: worked by hand, unbiased, bounded."""

from itertools import product
from statistics import fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.mixture.posterior import Posterior
from agentgym_rl.algorithms.mixture.variance import RewardVariance

REWARD = st.floats(0, 1)


def after(*tasks: list[float]) -> RewardVariance:
    """What is known after one step."""
    estimate = RewardVariance()
    estimate.add(tasks, 0.0)
    return estimate


def test_worked_by_hand():
    estimate = RewardVariance()
    estimate.add([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [1]], 0.5)
    assert (estimate.tasks, estimate.variances) == (3, pytest.approx(1 / 4 + 1 / 3 + 0))
    assert estimate.overall == pytest.approx(5 * 10 / (15 * 16))  # 4 successes, 9 failures
    assert estimate.within_tasks == pytest.approx((5 / 24 + 7 / 12) / 4)
    estimate.add([[0.2, 0.4, 0.6], [0.5]], 0.5)
    assert estimate.state_dict() == pytest.approx([6.5 + 4, 2 + 1.7, 2 + 0.56 + 0.25, 1.5 + 1, 7 / 24 + 0.04])
    assert estimate.within_tasks == pytest.approx(((1 + 2.81 - 4.7**2 / 12.5) / 13.5 + 7 / 24 + 0.04) / 3.5)


def test_what_is_known_before_any_episode_and_without_groups():
    assert RewardVariance().within_tasks == pytest.approx(1 / 6)
    single = after([1], [0], [1])
    assert single.within_tasks == single.overall == pytest.approx(3 * 2 / (5 * 6))


@given(st.integers(0, 30), st.integers(0, 30))
def test_rewards_of_0_and_1(wins, losses):
    estimate, k = after([1.0] * wins + [0.0] * losses), wins + losses
    assert estimate.overall == pytest.approx(Posterior(wins, losses).outcome_variance)
    assert estimate.variances == pytest.approx(wins * losses / (k * (k - 1)) if k > 1 else 0)


@given(st.lists(REWARD, min_size=1, max_size=4), st.integers(2, 4))
def test_the_estimate_of_a_task_is_unbiased(rewards, k):
    """The mean over all groups of k episodes, each of which has one of these rewards, all alike."""
    estimates = [after(list(group)).variances for group in product(rewards, repeat=k)]
    assert fmean(estimates) == pytest.approx(pvariance(rewards))


@given(st.lists(st.lists(st.lists(REWARD, max_size=5), max_size=5), max_size=5), st.floats(0, 0.99))
def test_bounds(steps, decay):
    estimate = RewardVariance()
    for tasks in steps:
        estimate.add(tasks, decay)
        assert 0 <= estimate.variances <= estimate.tasks / 2 + 1e-9
        assert 0 < estimate.overall < 1 / 4
        assert 0 < estimate.within_tasks < 1 / 2
    assert RewardVariance.from_state(estimate.state_dict()) == estimate
