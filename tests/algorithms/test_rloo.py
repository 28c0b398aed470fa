"""verl's leave-one-out estimator, as configured, on episodes of two turns."""

import pytest

from agentgym_rl.algorithms import ALGORITHMS


def test_the_reward_less_the_mean_of_the_others_on_every_token_of_both_turns(estimate):
    advantages, _ = estimate("rloo", [1.0, 0.0, 0.25], ["a", "a", "a"])
    first, second, third = 1.0 - 0.125, 0.0 - 0.625, 0.25 - 0.5
    assert advantages == [
        pytest.approx([first, first, 0, 0, first]),
        pytest.approx([second, 0, second, second, second]),
        pytest.approx([third, 0, third, 0, 0]),
    ]


def test_other_tasks_do_not_matter(estimate):
    advantages, _ = estimate("rloo", [1.0, 0.0, 0.25], ["a", "a", "b"])
    assert advantages[0] == pytest.approx([1, 1, 0, 0, 1])
    assert advantages[1] == pytest.approx([-1, 0, -1, -1, -1])


def test_equal_rewards_teach_nothing(estimate):
    advantages, _ = estimate("rloo", [1.0, 1.0, 1.0], ["a", "a", "a"])
    assert advantages == [[0.0] * 5] * 3


def test_is_grouped():
    assert ALGORITHMS["rloo"].grouped and not ALGORITHMS["rloo"].critic
