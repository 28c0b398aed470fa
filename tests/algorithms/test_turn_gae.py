"""Generalised advantages over turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.turn_gae import turn_gae

NUMBERS = st.lists(st.tuples(st.floats(-2, 2, width=32), st.floats(-2, 2, width=32)), max_size=6)


def test_by_hand():
    advantages, returns = turn_gae([0.0, 1.0], [0.5, 0.25], gamma=0.5, lam=0.5)
    last = 1.0 - 0.25
    first = 0.0 + 0.5 * 0.25 - 0.5 + 0.5 * 0.5 * last
    assert advantages == pytest.approx([first, last])
    assert returns == pytest.approx([first + 0.5, 1.0])
    assert turn_gae([], [], gamma=1.0, lam=1.0) == ([], [])


@given(NUMBERS)
def test_without_discount_the_target_is_the_reward_to_come(turns):
    rewards, values = [reward for reward, _ in turns], [value for _, value in turns]
    _, returns = turn_gae(rewards, values, gamma=1.0, lam=1.0)
    assert returns == pytest.approx([sum(rewards[turn:]) for turn in range(len(turns))], abs=1e-5)


@given(NUMBERS, st.floats(0, 1))
def test_with_lambda_0_it_is_the_error_of_one_step(turns, gamma):
    rewards, values = [reward for reward, _ in turns], [value for _, value in turns]
    advantages, _ = turn_gae(rewards, values, gamma=gamma, lam=0.0)
    following = [*values[1:], 0.0]
    assert advantages == pytest.approx(
        [reward + gamma * after - value for (reward, value), after in zip(turns, following, strict=False)], abs=1e-6
    )


@given(NUMBERS, st.floats(0, 1), st.floats(0, 1))
def test_is_verls_gae_when_every_turn_is_one_token(turns, gamma, lam):
    torch = pytest.importorskip("torch")
    core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")
    if len(turns) < 2:
        return
    rewards, values = (torch.tensor([column]) for column in zip(*turns, strict=True))
    _, theirs = core_algos.compute_gae_advantage_return(rewards, values, torch.ones_like(values), gamma, lam)
    _, ours = turn_gae(rewards[0].tolist(), values[0].tolist(), gamma=gamma, lam=lam)
    assert ours == pytest.approx(theirs[0].tolist(), abs=1e-4)
