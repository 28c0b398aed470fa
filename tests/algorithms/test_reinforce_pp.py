"""verl's REINFORCE++, as configured, on episodes of two turns: does the first turn receive the reward?"""

from statistics import fmean, stdev

import pytest

from agentgym_rl.algorithms.reinforce_pp import ReinforcePP, ReinforcePPConfig

UIDS = ["a", "b", "c"]


def test_the_reward_reaches_both_turns_and_jumps_over_observations(estimate):
    _, returns = estimate("reinforce_pp", [1.0, 0.0, 0.5], UIDS)
    assert returns == [[1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [0.5, 0, 0.5, 0, 0]]


@pytest.mark.slow
def test_gamma_discounts_tokens_of_the_model_only(estimate):
    _, returns = estimate("reinforce_pp", [1.0, 1.0, 1.0], UIDS, "algorithm.gamma=0.5")
    assert returns == [[0.25, 0.5, 0, 0, 1], [0.125, 0, 0.25, 0.5, 1], [0.5, 0, 1, 0, 0]]


@pytest.mark.slow
def test_whitened_over_the_tokens_of_the_model(estimate):
    advantages, _ = estimate("reinforce_pp", [1.0, 0.0, 0.5], UIDS)
    tokens = [1.0] * 3 + [0.0] * 4 + [0.5] * 2  # three, four and two tokens the model wrote
    first, second, third = ((value - fmean(tokens)) / stdev(tokens) for value in (1.0, 0.0, 0.5))
    assert advantages == [
        pytest.approx([first, first, 0, 0, first]),
        pytest.approx([second, 0, second, second, second]),
        pytest.approx([third, 0, third, 0, 0]),
    ]


def test_equal_rewards_teach_nothing(estimate):
    advantages, _ = estimate("reinforce_pp", [1.0, 1.0, 1.0], UIDS)
    assert advantages == [pytest.approx([0.0] * 5)] * 3


def test_has_no_groups():
    needs = ReinforcePP.needs(ReinforcePPConfig(gamma=0.5))
    assert (needs.samples_per_task, needs.estimator.gamma) == (1, 0.5)
