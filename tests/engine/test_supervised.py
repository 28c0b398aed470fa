"""Mini-batches of supervised steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.rollout.supervised import Example

pytest.importorskip("verl")

from agentgym_rl.engine.verl.supervised import order, to_batch


@given(count=st.integers(1, 40), batch=st.integers(1, 12), seed=st.text(), updates=st.none() | st.integers(0, 15))
def test_order(count, batch, seed, updates):
    indices = order(count, batch, seed, updates)
    assert len(indices) % batch == 0
    if updates is None:
        assert count <= len(indices) < count + batch
    else:
        assert len(indices) == updates * batch
    for start in range(0, len(indices), count):
        one_pass = indices[start : start + count]
        assert len(set(one_pass)) == len(one_pass)
        assert len(one_pass) < count or sorted(one_pass) == list(range(count))
    assert order(count, batch, seed, updates) == indices


def test_order_differs_from_seed_to_seed_and_pass_to_pass():
    assert order(20, 10, "a") != order(20, 10, "b")
    two = order(20, 10, "a", updates=4)
    assert two[:20] == order(20, 10, "a")
    assert two[20:] != two[:20]


def test_to_batch():
    import torch
    from verl.utils import tensordict_utils as tu

    examples = [Example([7, 8, 9], [0.0, 1.0, 0.0]), Example([4, 5], [0.0, 0.5])]
    data = to_batch(examples, batch=2)
    assert data.batch_size == torch.Size([2])
    for name, rows, kind in (
        ("input_ids", [[7, 8, 9], [4, 5]], torch.int64),
        ("position_ids", [[0, 1, 2], [0, 1]], torch.int64),
        ("loss_mask", [[0.0, 1.0, 0.0], [0.0, 0.5]], torch.float32),
    ):
        assert data[name].is_nested and data[name].dtype == kind
        assert [row.tolist() for row in data[name].unbind()] == rows
    assert tu.get_non_tensor_data(data, "global_batch_size", None) == 2
    assert tu.get_non_tensor_data(data, "mini_batch_size", None) == 2
    assert tu.get_non_tensor_data(data, "dataloader_kwargs", None) == {"shuffle": False}


def test_a_first_token_cannot_be_learnt():
    with pytest.raises(AssertionError, match="first token"):
        to_batch([Example([1, 2], [1.0, 1.0])], batch=1)
