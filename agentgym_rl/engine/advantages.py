"""What becomes of rewards beyond verl's estimators: lone episodes leave, turns get advantages and values of their own.

All of it works on the rows of a batch in the TransferQueue, between the steps of verl's trainer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.utils.torch_functional import masked_whiten
from verl.workers.utils.padding import response_to_nested

from agentgym_rl.algorithms.gigpo import anchors, step_advantages
from agentgym_rl.algorithms.groups import lone
from agentgym_rl.algorithms.turn_gae import turn_gae
from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.buffer import NothingToLearn

VALUE_MASK = "value_mask"
"""Field of the rows: 1 where the critic learns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Settings of ``trainer.v1.agentgym``."""

    grouped: bool
    """Episodes alone in their group leave the batch."""
    step_weight: float
    """GiGPO's omega; 0 adds no step-level advantage."""
    level: str
    """token: verl's estimator as it is. turn: values and generalised advantages over turns."""

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Credit:
        return cls(**settings)

    def __post_init__(self) -> None:
        if self.level not in ("token", "turn"):
            raise ValueError(f"algorithm.level={self.level!r} is unknown; choose token or turn")


def without_lone(batch: KVBatchMeta) -> KVBatchMeta:
    """The batch less the episodes that have no other of their prompt; their rows are cleared.

    Raises:
        NothingToLearn: none is left.
    """
    alone = {batch.keys[index] for index in lone([prompt_of(key) for key in batch.keys])}
    if not alone:
        return batch
    if len(alone) == len(batch.keys):
        raise NothingToLearn(
            f"each of the {len(alone)} episodes of this step is the only one of its task that counts; "
            "set algorithm.samples to 2 or more"
        )
    tq.kv_clear(keys=sorted(alone), partition_id=batch.partition_id)
    return batch.select_keys([key for key in batch.keys if key not in alone])


def prompt_of(key: str) -> str:
    """The uid of a row's prompt; a key is ``<uid>_<session>_<output>``."""
    return key.rsplit("_", 2)[0]


def add_steps(batch: KVBatchMeta, *, weight: float, gamma: float, by_std: bool) -> dict[str, float]:
    """Add GiGPO's step-level advantages to those in the rows; returns metrics."""
    data, mask, episodes = _rows(batch, "advantages")
    groups = [prompt_of(key) for key in batch.keys]
    real = [index for index, episode in enumerate(episodes) if episode is not None]
    played = [episode for episode in episodes if episode is not None]
    played_groups = [groups[index] for index in real]
    of_turns: list[list[float]] = [[] for _ in episodes]
    for index, own in zip(real, step_advantages(played, played_groups, gamma=gamma, by_std=by_std), strict=True):
        of_turns[index] = own
    steps = over_tokens(of_turns, episodes, mask)
    _write(batch, data, advantages=_padded(data, "advantages") + weight * steps)
    size = Counter(anchor for own in anchors(played, played_groups) for anchor in own)
    shared = [count for count in size.values() if count > 1]
    return {
        "gigpo/step_groups": float(len(shared)),
        "gigpo/shared_turns_frac": sum(shared) / max(1, size.total()),
        "gigpo/step_advantage_abs": float(steps.abs().sum() / mask.sum().clamp(min=1)),
    }


def by_turn(batch: KVBatchMeta, *, gamma: float, lam: float) -> None:
    """Replace advantages, returns and values in the rows by those of turns, and mark where the critic learns.

    All three are constant over the tokens of a turn; the critic learns at the first token of each.
    """
    data, mask, episodes = _rows(batch, "values", "advantages", "returns")
    values = _padded(data, "values")
    of_turns: list[list[list[float]]] = [[], [], []]  # advantages, returns, values; each rows x turns
    first = torch.zeros_like(mask)
    for row, episode in enumerate(episodes):
        turns = [] if episode is None else episode.turns
        starts = [turn.tokens[0] for turn in turns]
        own = [float(values[row, start]) for start in starts]
        advantages, returns = turn_gae([turn.reward for turn in turns], own, gamma=gamma, lam=lam)
        for kind, numbers in zip(of_turns, (advantages, returns, own), strict=True):
            kind.append(numbers)
        first[row, starts] = 1
    spread = [over_tokens(kind, episodes, mask) for kind in of_turns]
    _write(
        batch,
        data,
        advantages=masked_whiten(spread[0], mask) * mask,
        returns=spread[1],
        values=spread[2],
        **{VALUE_MASK: first * mask},
    )


@contextmanager
def value_places(batch: KVBatchMeta) -> Iterator[None]:
    """Inside, the rows' masks are 1 only where the critic learns, for verl's value loss and its mean."""
    names = ["response_mask", "loss_mask"]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=[*names, VALUE_MASK])

    def put(fields: dict[str, torch.Tensor]) -> None:
        rows = TensorDict(fields, batch_size=len(batch))
        tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=rows)

    put({name: data[VALUE_MASK].to(data[name].dtype) for name in names})
    yield
    put({name: data[name] for name in names})


def over_tokens(
    of_turns: Sequence[Sequence[float]], episodes: Sequence[Episode | None], mask: torch.Tensor
) -> torch.Tensor:
    """[rows, tokens]: each turn's number on the tokens the model wrote in it, 0 elsewhere."""
    spread = torch.zeros(mask.shape, dtype=torch.float32)
    for row, (numbers, episode) in enumerate(zip(of_turns, episodes, strict=True)):
        for number, turn in zip(numbers, [] if episode is None else episode.turns, strict=True):
            spread[row, slice(*turn.tokens)] = number
    return spread * mask


def _rows(batch: KVBatchMeta, *fields: str) -> tuple[TensorDict, torch.Tensor, list[Episode | None]]:
    """Fields and the mask, as stored; the mask padded, [rows, tokens]; the episodes, none for verl's padding."""
    names = [*fields, "response_mask", "extra_fields"]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
    stored = [getattr(value, "data", value) for value in data["extra_fields"]]
    episodes = [
        None if tag.get("is_padding", False) else Episode.from_dict(extra["episode"])
        for tag, extra in zip(batch.tags, stored, strict=True)
    ]
    return data, _padded(data, "response_mask"), episodes


def _padded(data: TensorDict, field: str) -> torch.Tensor:
    padded: torch.Tensor = data[field].to_padded_tensor(0)
    return padded


def _write(batch: KVBatchMeta, data: TensorDict, **fields: torch.Tensor) -> None:
    """Write padded fields. What ``data`` has keeps its dtype: the queue drops another one with no more than a log."""
    typed = {name: value.to(data[name].dtype) if name in data else value for name, value in fields.items()}
    nested = {name: response_to_nested(value, data["response_mask"]) for name, value in typed.items()}
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(nested, batch_size=len(batch)))
