"""Values relative to a group, and verl's GRPO beside them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.groups import lone, relative

GROUPED = st.lists(st.tuples(st.floats(-5, 5, width=32), st.sampled_from("abc")), max_size=12)


def test_lone_members():
    assert lone(["a", "b", "a", "c"]) == [1, 3]
    assert lone([]) == []


def test_relative_by_hand():
    values, groups = [1.0, 0.0, 5.0, 0.0], ["a", "a", "b", "a"]
    third = 1 / 3
    assert relative(values, groups, by_std=False) == pytest.approx([2 * third, -third, 0.0, -third])
    std = math.sqrt((4 / 9 + 1 / 9 + 1 / 9) / 2)
    assert relative(values, groups, by_std=True) == pytest.approx(
        [2 * third / std, -third / std, 0, -third / std], 1e-4
    )


@given(GROUPED, st.booleans())
def test_a_group_sums_to_nothing(members, by_std):
    values, groups = [value for value, _ in members], [group for _, group in members]
    found = relative(values, groups, by_std)
    for group in "abc":
        own = [value for value, other in zip(found, groups, strict=True) if other == group]
        assert sum(own) == pytest.approx(0.0, abs=1e-3)
        if len(own) == 1:
            assert own == [0.0]


def test_agrees_with_verls_grpo_where_a_group_has_several():
    torch = pytest.importorskip("torch")
    core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")
    import numpy as np

    values, groups = [1.0, 0.0, 0.25, 0.5, 0.5], ["a", "a", "a", "b", "b"]
    rewards = torch.tensor([[0.0, value] for value in values])
    for by_std in (True, False):
        theirs, _ = core_algos.compute_grpo_outcome_advantage(
            rewards.clone(), torch.ones(5, 2), np.array(groups, dtype=object), norm_adv_by_std_in_grpo=by_std
        )
        assert theirs[:, 0].tolist() == pytest.approx(relative(values, groups, by_std), abs=1e-5)


def test_verls_grpo_would_give_a_lone_episode_its_raw_reward():
    """Why lone episodes leave the batch; when this fails they may stay."""
    torch = pytest.importorskip("torch")
    core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")
    import numpy as np

    lonely, _ = core_algos.compute_grpo_outcome_advantage(
        torch.tensor([[0.0, 1.0]]), torch.ones(1, 2), np.array(["a"], dtype=object)
    )
    assert lonely.tolist() == [[pytest.approx(1.0), pytest.approx(1.0)]]
