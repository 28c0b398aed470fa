"""The batches that training workers are given of rows with tokens, and the loss that they compute of any rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.padding import no_padding_2_padding

from agentgym_rl.algorithms.losses.aggregation import token_weights
from agentgym_rl.algorithms.losses.base import Loss, Tokens
from agentgym_rl.algorithms.losses.kl import k3
from agentgym_rl.algorithms.rows import PerToken, Row, Stream
from agentgym_rl.engine.verl.drift import KEPT, WEIGHTS
from agentgym_rl.engine.verl.fields import LOSS_WEIGHT, field_of, pieces, replayed, turns_of
from agentgym_rl.rollout.supervised import Example

OBSERVATION_WEIGHT = field_of("observation")
OPTIONAL = ("old_log_probs", OBSERVATION_WEIGHT, WEIGHTS, KEPT, "ref_log_prob")
"""Fields that the rows of some updates have."""

Progress = Callable[[int, int], None]
"""Called with how many are done, and of how many."""


def order(count: int, batch: int, seed: str, updates: int | None = None) -> list[int]:
    """Places of what is learned from in one pass, shuffled, or in as many passes as ``updates`` mini-batches need.

    The length is a multiple of ``batch``; a pass that does not fill its last mini-batch is continued by the next.
    """
    rng = Random(seed)
    length = (updates if updates is not None else -(-count // batch)) * batch
    indices: list[int] = []
    while len(indices) < length:
        one_pass = list(range(count))
        rng.shuffle(one_pass)
        indices += one_pass
    return indices[:length]


def dealt(count: int, size: int, ranks: int) -> list[int]:
    """Places of rows in the order in which verl deals updates of ``size`` rows each: a chunk for each rank, its updates
    one after the other.
    """
    share = size // ranks
    return [
        update + rank * share + place
        for rank in range(ranks) for update in range(0, count, size) for place in range(share)
    ]  # fmt: skip


def token_batch(examples: Sequence[Example], size: int, temperature: float) -> TensorDict:
    """A batch for ``update_actor`` or ``compute_log_prob``, whose fields are those of a rollout's rows in the queue.

    A row is jagged; its prompt is the first token, which nothing precedes, and its response all others.

    Args:
        size: rows of an update, on all workers.
    """
    ids = [torch.tensor(example.input_ids, dtype=torch.int64) for example in examples]
    masks = [[int(weight != 0) for weight in example.loss_weight] for example in examples]
    assert not any(mask[0] for mask in masks), "the first token of an example cannot be learned"
    response_mask = of_responses(masks, torch.int64)
    data = TensorDict(
        {
            "input_ids": nested(ids),
            "position_ids": nested([torch.arange(len(row)) for row in ids]),
            "prompts": nested([row[:1] for row in ids]),
            "responses": nested([row[1:] for row in ids]),
            "response_mask": response_mask,
            "loss_mask": response_mask,
        },
        batch_size=len(examples),
    )
    settings: dict[str, Any] = {
        "temperature": temperature,
        "calculate_entropy": False,
        "global_batch_size": size,
        "mini_batch_size": size,
        "epochs": 1,
        "dataloader_kwargs": {"shuffle": False},
    }
    tu.assign_non_tensor(data, **settings)
    return data


def row_batch(
    rows: Sequence[Row], loss: Loss[Any], size: int, temperature: float, longest: int, ranks: int = 1
) -> TensorDict:
    """Rows that have their tokens, with their streams, for ``update_actor``.

    verl keeps consecutive rows that a loss compares in one micro-batch; equal shares of a multiple of their number keep
    them on one worker.

    Args:
        size: rows of an update, on all workers.
        longest: most tokens of a response, for ``seq-mean-token-sum-norm``.
        ranks: shares that the rows are dealt in; they have the order of :func:`dealt`.
    """
    read = {name: [spread(row, name, row.streams[name]) for row in rows] for name in {*rows[0].streams} - {"reward"}}
    if "turn" in loss.streams:
        read["turn"] = [spread(row, "turn", range(len(turns_of(row)))) for row in rows]
    learned = [learned_tokens(row) for row in rows]
    data = token_batch(learned, size, temperature)
    for name, values in read.items():
        data[field_of(name)] = of_responses(values, torch.float32)
    if loss.rows_together > 1:
        weights = [1 / size] * len(rows)
        tu.assign_non_tensor(data, force_group_size=loss.rows_together)
    else:
        sums = read[loss.divided_by] if loss.divided_by else [example.loss_weight for example in learned]
        episodes = [f"{place if row.episode is None else id(row.episode)}" for place, row in enumerate(rows)]
        updates = [place // size for place in dealt(len(rows), size, ranks)]
        weights = token_weights([*map(sum, sums)], episodes, updates, loss.config.aggregation, longest)
    data[LOSS_WEIGHT] = torch.tensor(weights, dtype=torch.float32)
    tu.assign_non_tensor(data, calculate_entropy=bool(loss.config.entropy))
    return data


def learned_tokens(row: Row) -> Example:
    """The tokens of a row; those count as its own that the model wrote, or that have a weight in the cross-entropy."""
    weights = row.streams.get("cross_entropy")
    if not isinstance(weights, PerToken):
        return row.tokens
    learned = [float(any(pair)) for pair in zip(row.tokens.loss_weight, weights, strict=True)]
    return replace(row.tokens, loss_weight=learned)


def spread(row: Row, name: str, stream: Stream) -> list[float]:
    """A stream of a row that has its tokens, on each of them.

    One number, or one a turn, is on those that the model wrote; that of observations outside of all
    responses, from the first on.
    """
    example = row.tokens
    if isinstance(stream, PerToken):
        return list(stream)
    width = len(example.input_ids) - example.prompt
    values = [0.0] * example.prompt
    for value, tokens in pieces(row, stream, {"response_len": width}):
        values += [value] * tokens
    if name == "observation":
        for begin, end in replayed(row):
            values[example.prompt + begin : example.prompt + end] = [0.0] * (end - begin)
        return [0.0 if weight else value for weight, value in zip(example.loss_weight, values, strict=True)]
    return [value * weight for weight, value in zip(example.loss_weight, values, strict=True)]


def of_responses(rows: Sequence[Sequence[float]], dtype: torch.dtype) -> torch.Tensor:
    """Jagged [rows, tokens]: a number for each token but the first."""
    return nested([torch.tensor(row[1:], dtype=dtype) for row in rows])


def nested(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Jagged [rows, ...]."""
    return torch.nested.as_nested_tensor([*rows], layout=torch.jagged)


def row_loss(
    model_output: dict[str, torch.Tensor], data: TensorDict, dp_group: Any = None, *, loss: Loss[Any]
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """The loss of an update, a weighted sum over tokens, less the entropy bonus, plus KL and observation losses.

    ``data`` holds rows of :func:`.fields.write` or of :func:`row_batch`. Without ``old_log_probs`` the ratio is 1, with
    the gradient of the present policy. The supervised loss on observation tokens is normalised by the response tokens
    of the mini-batch.
    """
    log_prob = no_padding_2_padding(model_output["log_probs"], data)
    workers = data["dp_size"]  # verl averages over workers and sums micro-batches
    streams = {name: field_of(name) for name in loss.streams}
    optional = [name for name in OPTIONAL if name in data]
    rows = data.select("response_mask", LOSS_WEIGHT, *streams.values(), *optional).to_padded_tensor()
    mask = rows["response_mask"].bool()
    of_row = rows[LOSS_WEIGHT].unsqueeze(-1)
    weight = of_row * rows.get(KEPT, mask)
    old = rows.get("old_log_probs", log_prob.detach())
    tokens = Tokens(
        log_prob=log_prob,
        old_log_prob=old.where(~old.isnan(), log_prob.detach()),  # of replayed tokens bypass has none
        mask=mask,
        streams={name: rows[field].reshape(len(mask), -1) for name, field in streams.items()},
    )
    each = loss(tokens)
    with torch.no_grad():
        outside, logged = loss.clipped(tokens), loss.metrics(tokens)

    def total(values: torch.Tensor) -> torch.Tensor:
        summed: torch.Tensor = (values * (weight if values.shape == mask.shape else of_row)).sum() * workers
        return summed

    def share(values: torch.Tensor) -> torch.Tensor:
        """This part of the mean over the model's own tokens of the update."""
        summed: torch.Tensor = values.float().where(mask, 0.0).sum() / max(1, data["batch_num_tokens"]) * workers
        return summed

    objective = total(each * rows[WEIGHTS] if WEIGHTS in rows else each)
    parts = {"actor/pg_loss": objective} | {f"{loss.label}/{name}": total(values) for name, values in logged.items()}
    parts |= {"actor/pg_clipfrac": share(outside), "actor/ppo_kl": share(-tokens.log_ratio)}
    if loss.config.entropy or tu.get_non_tensor_data(data, "calculate_entropy", False):
        parts["actor/entropy_loss"] = total(no_padding_2_padding(model_output["entropy"], data))
        objective = objective - loss.config.entropy * parts["actor/entropy_loss"]
    if "ref_log_prob" in rows:
        parts["kl_loss"] = total(k3(log_prob, rows["ref_log_prob"]))
        objective = objective + loss.config.kl * parts["kl_loss"]
    if OBSERVATION_WEIGHT in rows:
        parts["observation_loss"] = -(log_prob * rows[OBSERVATION_WEIGHT]).sum() / data["batch_num_tokens"] * workers
        objective = objective + parts["observation_loss"]
    return objective, {name: Metric(AggregationType.SUM, part.detach()) for name, part in parts.items()}
