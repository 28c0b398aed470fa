"""DPO steps on the RL workers: pairs as rows, the loss, and the reference before the first update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch.nn.functional import logsigmoid
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.config import ActorConfig

from agentgym_rl.engine.verl.supervised import to_batch
from agentgym_rl.rollout.supervised import Example

Pair = tuple[Example, Example]
"""Preferred and rejected."""


def pair_batch(pairs: Sequence[Pair], batch: int) -> TensorDict:
    """Rows for ``update_actor``, ``batch`` pairs an update.

    Rows 2i and 2i + 1 are a pair, and verl keeps each two consecutive rows in one micro-batch; equal shares of an even
    number of rows keep them on one worker.
    """
    data = to_batch([example for pair in pairs for example in pair], 2 * batch)
    tu.assign_non_tensor(data, force_group_size=2)
    return data


def episode_log_probs(log_probs: torch.Tensor, loss_mask: torch.Tensor) -> torch.Tensor:
    """[rows]: sum of the log-probabilities of the tokens with loss.

    Args:
        log_probs: jagged [rows, tokens]; at each place that of the token after it, as verl's workers give it.
        loss_mask: jagged [rows, tokens]; 0 on the first token of a row.
    """
    rows = zip(log_probs.unbind(), loss_mask.unbind(), strict=True)
    return torch.stack([(values[:-1] * mask[1:]).sum() for values, mask in rows])


def dpo_loss(
    config: ActorConfig, model_output: dict[str, torch.Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """The loss of :mod:`agentgym_rl.algorithms.dpo`, a mean over the pairs of a mini-batch on all workers.

    ``data`` holds rows of :func:`pair_batch` with ``ref_log_prob`` [rows], and ``beta``.
    """
    ratio = episode_log_probs(model_output["log_probs"], data["loss_mask"]) - data["ref_log_prob"]
    preferred, rejected = ratio.view(-1, 2).unbind(1)
    margin = data["beta"] * (preferred - rejected)
    share = 2 * data["dp_size"] / data["global_batch_size"]  # verl averages over workers and sums micro-batches

    def mean(values: torch.Tensor) -> Metric:
        return Metric(value=values.detach().sum() * share, aggregation=AggregationType.SUM)

    losses = -logsigmoid(margin)
    metrics = {"dpo/margin": mean(margin), "dpo/accuracy": mean((margin > 0).float())}
    return losses.sum() * share, metrics
