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
from agentgym_rl.engine.verl.buffer import NothingToLearn
from agentgym_rl.engine.verl.keys import extra_fields, prompt_of, sample_of, session_of

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
    sessions = list(dict.fromkeys(session_of(key) for key in batch.keys))
    sent_away = {sessions[index] for index in lone([prompt_of(session) for session in sessions])}
    if not sent_away:
        return batch
    if len(sent_away) == len(sessions):
        raise NothingToLearn(
            f"each of the {len(sent_away)} episodes of this step is the only one of its task that counts; "
            "set algorithm.samples to 2 or more"
        )
    alone = {key for key in batch.keys if session_of(key) in sent_away}
    tq.kv_clear(keys=sorted(alone), partition_id=batch.partition_id)
    return batch.select_keys([key for key in batch.keys if key not in alone])


def of_episodes(batch: KVBatchMeta) -> KVBatchMeta:
    """One row an episode: the last sample of each."""
    last = {session_of(key): key for key in sorted(batch.keys, key=sample_of)}
    return batch.select_keys([key for key in batch.keys if last[session_of(key)] == key])


def broadcast(batch: KVBatchMeta) -> None:
    """Give every row the advantage of its episode's last sample, which is the same on all of its tokens."""
    data = tq.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=["advantages", "returns", "response_mask"]
    )
    mask, advantages = _padded(data, "response_mask"), _padded(data, "advantages")
    last = {session_of(key): row for row, key in sorted(enumerate(batch.keys), key=lambda one: sample_of(one[1]))}
    first = mask.argmax(1)
    own = torch.stack([advantages[row := last[session_of(key)], first[row]] for key in batch.keys])
    spread = own.unsqueeze(1) * mask
    _write(batch, data, advantages=spread, returns=spread)


def add_steps(batch: KVBatchMeta, *, weight: float, gamma: float, by_std: bool) -> dict[str, float]:
    """Add GiGPO's step-level advantages to those in the rows; returns metrics."""
    data, mask, rows = _rows(batch, "advantages")
    played, groups = list(rows.episodes.values()), [prompt_of(session) for session in rows.episodes]
    found = step_advantages(played, groups, gamma=gamma, by_std=by_std)
    steps = over_tokens(dict(zip(rows.episodes, found, strict=True)), rows, mask)
    _write(batch, data, advantages=_padded(data, "advantages") + weight * steps)
    size = Counter(anchor for own in anchors(played, groups) for anchor in own)
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
    data, mask, rows = _rows(batch, "values", "advantages", "returns")
    values = _padded(data, "values")
    of_turns: list[dict[str, list[float]]] = [{}, {}, {}]  # advantages, returns, values
    first = torch.zeros_like(mask)
    row_of = {place: row for row, place in enumerate(rows.places)}
    for session, episode in rows.episodes.items():
        starts = [(row_of[session, turn.sample], turn.tokens[0]) for turn in episode.turns]
        own = [float(values[start]) for start in starts]
        advantages, returns = turn_gae([turn.reward for turn in episode.turns], own, gamma=gamma, lam=lam)
        for kind, numbers in zip(of_turns, (advantages, returns, own), strict=True):
            kind[session] = numbers
        for start in starts:
            first[start] = 1
    spread = [over_tokens(kind, rows, mask) for kind in of_turns]
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


@dataclass(frozen=True, slots=True)
class Rows:
    """What the rows of a batch are of."""

    places: Sequence[tuple[str, int]]
    """Session and sample of each row."""
    episodes: Mapping[str, Episode]
    """By session; verl's padding has none."""


def over_tokens(of_turns: Mapping[str, Sequence[float]], rows: Rows, mask: torch.Tensor) -> torch.Tensor:
    """[rows, tokens]: each turn's number on the tokens the model wrote in it, 0 elsewhere.

    Args:
        of_turns: numbers of the turns of each session.
    """
    spread = torch.zeros(mask.shape, dtype=torch.float32)
    row_of = {place: row for row, place in enumerate(rows.places)}
    for session, numbers in of_turns.items():
        for number, turn in zip(numbers, rows.episodes[session].turns, strict=True):
            spread[row_of[session, turn.sample], slice(*turn.tokens)] = number
    return spread * mask


def _rows(batch: KVBatchMeta, *fields: str) -> tuple[TensorDict, torch.Tensor, Rows]:
    """Fields and the mask, as stored; the mask padded, [rows, tokens]; what the rows are of."""
    names = [*fields, "response_mask", "extra_fields"]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
    places = [(session_of(key), sample_of(key)) for key in batch.keys]
    episodes = {
        session: Episode.from_dict(fields["episode"])
        for (session, _), tag, fields in zip(places, batch.tags, extra_fields(data), strict=True)
        if not tag.get("is_padding", False) and fields["episode"] is not None
    }
    return data, _padded(data, "response_mask"), Rows(places, episodes)


def _padded(data: TensorDict, field: str) -> torch.Tensor:
    padded: torch.Tensor = data[field].to_padded_tensor(0)
    return padded


def _write(batch: KVBatchMeta, data: TensorDict, **fields: torch.Tensor) -> None:
    """Write padded fields. What ``data`` has keeps its dtype: the queue drops another one with no more than a log."""
    typed = {name: value.to(data[name].dtype) if name in data else value for name, value in fields.items()}
    nested = {name: response_to_nested(value, data["response_mask"]) for name, value in typed.items()}
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(nested, batch_size=len(batch)))
