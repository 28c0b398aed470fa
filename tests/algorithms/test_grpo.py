"""GRPO's advantages by hand, and verl's estimator beside them."""

import math

import pytest
from episodes import rewarded
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.groups import GroupsConfig
from agentgym_rl.algorithms.grpo import GRPO, GRPOConfig, relative
from agentgym_rl.algorithms.losses.vanilla import VanillaConfig
from agentgym_rl.algorithms.policy_gradient import weighed

VALUES = st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=12)


def test_relative_by_hand():
    third = 1 / 3
    assert relative([1.0, 0.0, 0.0], by_std=False) == pytest.approx([2 * third, -third, -third])
    std = math.sqrt((4 / 9 + 1 / 9 + 1 / 9) / 2)
    assert relative([1.0, 0.0, 0.0], by_std=True) == pytest.approx([2 * third / std, -third / std, -third / std], 1e-4)
    assert relative([5.0], by_std=True) == [0.0]


@given(VALUES, st.booleans())
def test_advantages_of_a_group_sum_to_nothing(values, by_std):
    assert sum(relative(values, by_std)) == pytest.approx(0.0, abs=1e-2)


def test_each_group_on_its_own_and_in_the_order_of_the_rollouts():
    rewards, groups = [1.0, 0.5, 0.0, 0.5, 0.0], "abaca"
    rollouts = [
        Rollout(episode=episode, group=group) for episode, group in zip(rewarded(*rewards), groups, strict=True)
    ]
    advantages = GRPO(GRPOConfig(normalise_by_std=False)).advantages(rollouts)
    third = 1 / 3
    assert advantages == pytest.approx([2 * third, 0.0, -third, 0.0, -third])


@pytest.mark.parametrize("weight", [0.0, 0.2, 1.0, 2.0])
def test_negative_advantages_are_weighed(weight):
    rollouts = [Rollout(episode=episode, group="a") for episode in rewarded(1.0, 0.0, 0.0)]
    config = GRPOConfig(normalise_by_std=False, groups=GroupsConfig(negative_weight=weight))
    advantages = GRPO(config).advantages(rollouts)
    assert advantages == pytest.approx([2 / 3, -weight / 3, -weight / 3])


def test_negative_advantages_of_turns_are_weighed():
    assert weighed([0.5, -0.5, 0.0], 0.2) == pytest.approx([0.5, -0.1, 0.0])


def test_a_negative_weight_below_0_is_refused():
    with pytest.raises(ValueError, match="negative_weight must be at least 0, got -1"):
        GroupsConfig(negative_weight=-1.0)


def test_agrees_with_verls_estimator():
    torch = pytest.importorskip("torch")
    core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")
    import numpy as np

    values, groups = [1.0, 0.0, 0.25, 0.5, 0.5], ["a", "a", "a", "b", "b"]
    rewards = torch.tensor([[0.0, value] for value in values])
    for by_std in (True, False):
        theirs, _ = core_algos.compute_grpo_outcome_advantage(
            rewards.clone(), torch.ones(5, 2), np.array(groups, dtype=object), norm_adv_by_std_in_grpo=by_std
        )
        algorithm = GRPO(GRPOConfig(normalise_by_std=by_std))
        ours = [*algorithm.credit(rewarded(*values[:3])), *algorithm.credit(rewarded(*values[3:]))]
        assert theirs[:, 0].tolist() == pytest.approx(ours, abs=1e-5)


def test_needs_two_samples_and_a_reference_only_for_a_kl_loss():
    assert GRPO.needs(GRPOConfig()).samples_per_task == 2
    models = [GRPO.needs(GRPOConfig(loss=VanillaConfig(kl=value))).models for value in (0.0, 0.1)]
    assert models[0] == {} and models[1]["reference"].start == "start" and not models[1]["reference"].trained
