"""PPO over turns: generalised advantages and the critic's targets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.ppo import PPO, Level, PPOConfig, turn_gae
from agentgym_rl.data.episode import Ending, Episode, Turn

NUMBERS = st.lists(st.tuples(st.floats(-2, 2, width=32), st.floats(-2, 2, width=32)), max_size=6)


def rollout(rewards, values):
    turns = [Turn(response="r", action="r", observation="", reward=reward, invalid=False) for reward in rewards]
    episode = Episode(
        env="e", item_id="e_1", ending=Ending.TERMINATED, reward=0.0, success=False, max_turns=9, turns=turns
    )
    return Rollout(episode=episode, values=values)


def test_by_hand():
    last = 1.0 - 0.25
    first = 0.0 + 0.5 * 0.25 - 0.5 + 0.5 * 0.5 * last
    assert turn_gae([0.0, 1.0], [0.5, 0.25], gamma=0.5, lam=0.5) == pytest.approx([first, last])
    assert turn_gae([], [], gamma=1.0, lam=1.0) == []
    (streams,) = PPO(PPOConfig(level=Level.TURN, gamma=0.5, lam=0.5)).streams([rollout([0.0, 1.0], [0.5, 0.25])])
    assert streams["advantage"] == pytest.approx([first, last]) and streams["value"] == [0.5, 0.25]
    assert streams["return"] == pytest.approx([first + 0.5, 1.0])


def test_over_tokens_verl_estimates():
    config = PPOConfig(gamma=0.9, lam=0.8, critic_lr=1e-3, critic_warmup=2)
    needs = PPO.needs(config)
    assert (needs.estimator.name, needs.estimator.gamma, needs.estimator.lam) == ("gae", 0.9, 0.8)
    assert (needs.critic.lr, needs.critic.warmup) == (1e-3, 2)
    assert PPO(config).streams([rollout([1.0], [0.5])]) == [{}]


@given(NUMBERS)
def test_without_discount_the_target_is_the_reward_to_come(turns):
    rewards, values = [reward for reward, _ in turns], [value for _, value in turns]
    (streams,) = PPO(PPOConfig(level=Level.TURN)).streams([rollout(rewards, values)])
    assert streams["return"] == pytest.approx([sum(rewards[turn:]) for turn in range(len(turns))], abs=1e-5)


@given(NUMBERS, st.floats(0, 1))
def test_with_lambda_0_it_is_the_error_of_one_step(turns, gamma):
    rewards, values = [reward for reward, _ in turns], [value for _, value in turns]
    advantages = turn_gae(rewards, values, gamma=gamma, lam=0.0)
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
    ours = turn_gae(rewards[0].tolist(), values[0].tolist(), gamma=gamma, lam=lam)
    targets = [advantage + value for advantage, value in zip(ours, values[0].tolist(), strict=True)]
    assert targets == pytest.approx(theirs[0].tolist(), abs=1e-4)
