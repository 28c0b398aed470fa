"""Supervised steps on the RL workers, through verl's own SFT loss."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from agentgym_rl.rollout.supervised import Example


def order(count: int, batch: int, seed: str, updates: int | None = None) -> list[int]:
    """Indices of the examples of one call: one shuffled pass, or as many passes as ``updates`` mini-batches need.

    The length is a multiple of ``batch``; a pass that does not fill its last mini-batch is continued by the next.
    """
    rng = Random(seed)
    wanted = (updates if updates is not None else -(-count // batch)) * batch
    indices: list[int] = []
    while len(indices) < wanted:
        one_pass = list(range(count))
        rng.shuffle(one_pass)
        indices += one_pass
    return indices[:wanted]


def to_batch(examples: Sequence[Example], batch: int) -> TensorDict:
    """A batch for ``update_actor``: jagged ``input_ids``, ``position_ids`` and ``loss_mask`` of shape [N, L_i].

    verl's loss shifts the mask by one over the packed tokens, so the first token of an example must not carry loss.
    """
    ids = [torch.tensor(example.input_ids, dtype=torch.int64) for example in examples]
    weights = [torch.tensor(example.loss_weight, dtype=torch.float32) for example in examples]
    assert all(weight[0] == 0 for weight in weights), "the first token of an example cannot be learnt"

    def jagged(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    data = TensorDict(
        {
            "input_ids": jagged(ids),
            "position_ids": jagged([torch.arange(len(row)) for row in ids]),
            "loss_mask": jagged(weights),
        },
        batch_size=len(examples),
    )
    settings: dict[str, Any] = {
        "temperature": 1.0,
        "calculate_entropy": False,
        "global_batch_size": batch,
        "mini_batch_size": batch,
        "epochs": 1,
        "dataloader_kwargs": {"shuffle": False},
    }
    tu.assign_non_tensor(data, **settings)
    return data
