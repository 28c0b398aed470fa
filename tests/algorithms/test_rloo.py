"""The leave-one-out baseline."""

import pytest
from episodes import rewarded
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.config import GroupConfig
from agentgym_rl.algorithms.rloo import RLOO

ALGORITHM = RLOO(GroupConfig())


def test_the_reward_less_the_mean_of_the_others():
    assert ALGORITHM.credit(rewarded(1.0, 0.0, 0.25)) == pytest.approx([1.0 - 0.125, 0.0 - 0.625, 0.25 - 0.5])


def test_equal_rewards_teach_nothing():
    assert ALGORITHM.credit(rewarded(1.0, 1.0, 1.0)) == [0.0] * 3


@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=8))
def test_agrees_with_verls_estimator(rewards):
    torch = pytest.importorskip("torch")
    core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")
    import numpy as np

    tokens = torch.tensor([[0.0, reward] for reward in rewards])
    theirs, _ = core_algos.compute_rloo_outcome_advantage(
        tokens, torch.ones(len(rewards), 2), np.array(["a"] * len(rewards), dtype=object)
    )
    assert theirs[:, 0].tolist() == pytest.approx(ALGORITHM.credit(rewarded(*rewards)), abs=1e-5)


def test_needs_two_samples():
    assert RLOO.needs(GroupConfig()).samples_per_task == 2
