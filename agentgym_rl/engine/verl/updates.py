"""The three kinds of update on the training workers: their batches and their losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.utils.torch_functional import masked_mean
from verl.workers.config import ActorConfig
from verl.workers.utils.padding import no_padding_2_padding

from agentgym_rl.algorithms.losses.base import Loss, Tokens
from agentgym_rl.algorithms.losses.cross_entropy import CrossEntropy
from agentgym_rl.algorithms.losses.dpo import episode_log_probs, preference_loss
from agentgym_rl.algorithms.losses.kl import k3
from agentgym_rl.engine.verl.drift import KEPT, WEIGHTS
from agentgym_rl.engine.verl.rows import LOSS_WEIGHT, OBSERVATION_WEIGHT, TURN
from agentgym_rl.rollout.supervised import Example

OPTIONAL = ("old_log_probs", TURN, OBSERVATION_WEIGHT, WEIGHTS, KEPT, "ref_log_prob")
"""Fields of the rows of a policy update that some updates have."""

Pair = tuple[Example, Example]
"""Preferred and rejected."""
Progress = Callable[[int, int], None]
"""Called with how many are done, and of how many."""


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
    assert all(weight[0] == 0 for weight in weights), "the first token of an example cannot be learned"

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


def pair_batch(pairs: Sequence[Pair], batch: int) -> TensorDict:
    """Rows for ``update_actor``, ``batch`` pairs an update.

    Rows 2i and 2i + 1 are a pair, and verl keeps each two consecutive rows in one micro-batch; equal shares of an even
    number of rows keep them on one worker.
    """
    data = to_batch([example for pair in pairs for example in pair], 2 * batch)
    tu.assign_non_tensor(data, force_group_size=2)
    return data


def dpo_loss(
    config: ActorConfig, model_output: dict[str, torch.Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """DPO's loss (arXiv 2305.18290, equation 7), a mean over the pairs of a mini-batch on all workers.

    ``data`` holds rows of :func:`pair_batch` with ``ref_log_prob`` [rows], and ``beta``.
    """
    log_probs = episode_log_probs(model_output["log_probs"], data["loss_mask"])
    losses, margin = preference_loss(log_probs, data["ref_log_prob"], data["beta"])
    share = 2 * data["dp_size"] / data["global_batch_size"]  # verl averages over workers and sums micro-batches

    def mean(values: torch.Tensor) -> Metric:
        return Metric(value=values.detach().sum() * share, aggregation=AggregationType.SUM)

    metrics = {"dpo/margin": mean(margin), "dpo/accuracy": mean((margin > 0).float())}
    return losses.sum() * share, metrics


def supervised_loss(
    config: ActorConfig,
    model_output: dict[str, torch.Tensor],
    data: TensorDict,
    dp_group: Any = None,
    *,
    loss: CrossEntropy,
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """The loss of demonstrations, a mean over the tokens with loss of a mini-batch on all workers.

    ``data`` holds rows of :func:`to_batch`. The worker's log-probability at a place is that of the token after it.
    """
    log_prob = model_output["log_probs"].values()
    weight = data["loss_mask"].values().roll(-1)  # the first token of a row has none
    tokens = Tokens(log_prob=log_prob, old_log_prob=log_prob.detach(), mask=weight > 0, streams={"weight": weight})
    return loss(tokens).sum() / data["batch_num_tokens"] * data["dp_size"], {}


def policy_loss(
    config: ActorConfig,
    model_output: dict[str, torch.Tensor],
    data: TensorDict,
    dp_group: Any = None,
    *,
    loss: Loss[Any],
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """The policy's loss, a weighted sum over tokens, less the entropy bonus, plus KL and observation losses.

    ``data`` holds rows of :func:`agentgym_rl.engine.verl.rows.write`. Without ``old_log_probs`` the ratio is 1, with
    the gradient of the present policy. The supervised loss on observation tokens is normalised by the response tokens
    of the mini-batch.
    """
    log_prob = no_padding_2_padding(model_output["log_probs"], data)
    workers = data["dp_size"]  # verl averages over workers and sums micro-batches
    optional = [name for name in OPTIONAL if name in data]
    rows = data.select("response_mask", "advantages", LOSS_WEIGHT, *optional).to_padded_tensor()
    mask = rows["response_mask"].bool()
    weight = rows[LOSS_WEIGHT].unsqueeze(-1) * rows.get(KEPT, mask)
    old = rows.get("old_log_probs", log_prob.detach())
    tokens = Tokens(
        log_prob=log_prob,
        old_log_prob=old.where(~old.isnan(), log_prob.detach()),  # of replayed tokens bypass has none
        mask=mask,
        streams={
            "advantage": rows["advantages"].reshape(len(mask), -1),
            **({"turn": rows[TURN]} if TURN in rows else {}),
        },
    )
    each = loss(tokens)
    with torch.no_grad():
        outside = loss.clipped(tokens)

    def total(values: torch.Tensor) -> torch.Tensor:
        summed: torch.Tensor = (values * weight).sum() * workers
        return summed

    def share(values: torch.Tensor) -> Metric:
        return Metric(value=masked_mean(values.detach().float(), mask), aggregation=AggregationType.MEAN)

    whole = total(each * rows[WEIGHTS] if WEIGHTS in rows else each)
    parts = {"actor/pg_loss": whole}
    metrics = {"actor/pg_clipfrac": share(outside), "actor/ppo_kl": share(-tokens.log_ratio)}
    if loss.config.entropy or config.calculate_entropy:
        parts["actor/entropy_loss"] = total(no_padding_2_padding(model_output["entropy"], data))
        whole = whole - loss.config.entropy * parts["actor/entropy_loss"]
    if "ref_log_prob" in rows:
        parts["kl_loss"] = total(k3(log_prob, rows["ref_log_prob"]))
        whole = whole + loss.config.kl * parts["kl_loss"]
    if OBSERVATION_WEIGHT in rows:
        parts["observation_loss"] = -(log_prob * rows[OBSERVATION_WEIGHT]).sum() / data["batch_num_tokens"] * workers
        whole = whole + parts["observation_loss"]
    metrics |= {name: Metric(value=part.detach(), aggregation=AggregationType.SUM) for name, part in parts.items()}
    return whole, metrics
