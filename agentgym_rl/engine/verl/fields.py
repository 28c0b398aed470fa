"""Streams of rows, and what follows from them, as fields of verl's TransferQueue; see :mod:`.rows`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from transfer_queue import KVBatchMeta

from agentgym_rl.algorithms.base import Metrics, Rollout
from agentgym_rl.algorithms.losses.aggregation import token_weights
from agentgym_rl.algorithms.losses.base import Loss
from agentgym_rl.algorithms.rows import PerToken, Row, Stream, WithEngine
from agentgym_rl.data.episode import Turn
from agentgym_rl.engine.verl.rows import get, put, segment_of, session_of

VALUE_MASK = "value_mask"
"""Field of the rows: 1 where the critic learns."""
FIELDS = {"advantage": "advantages", "return": "returns", "value": "values", "observation": "observation_weight"}
"""Field of the rows by stream, where verl or its passes over tokens have a name for it; ``observation_weight`` is 0 on
the tokens of responses, those replayed included."""
LOSS_WEIGHT = "loss_weight"
"""Field of the rows, one number each: weight of each of the model's own tokens in the loss of its update."""


def field_of(stream: str) -> str:
    """The field that has a stream."""
    return FIELDS.get(stream, f"stream_{stream}")


def write(
    batch: KVBatchMeta, rows: Mapping[str, Row], loss: Loss[Any], update_of: Mapping[str, int], longest: int
) -> KVBatchMeta:
    """Write the streams of rows, and the weights of their tokens, as fields of a batch.

    Little is read and written, because training waits meanwhile: weights, and streams of one number, are one number a
    row. Streams of turns are also on tokens that the model did not write, where a mask is 0 and nobody looks.

    Args:
        rows: by key; other keys of the batch are padding.
        update_of: see :func:`.rows.arrange`.
        longest: most tokens of a response.

    Returns:
        The batch with the new fields, which workers are given.
    """
    mask = cache(lambda: get(batch, "loss_mask")["loss_mask"])
    names = set(next(iter(rows.values())).streams) - {"reward"}
    there = {name for name in names if all(isinstance(row.streams[name], WithEngine) for row in rows.values())}
    _fill_padding(batch, rows, there)
    fields = {field_of(name): _stream(batch, rows, name) for name in names - there}
    if "turn" in loss.streams:
        fields[field_of("turn")] = over_tokens(batch, rows, lambda row: range(len(turns_of(row))))
    if "advantage" not in loss.streams:  # verl's metrics read some
        fields["advantages"] = torch.zeros(len(batch))
    if (advantages := fields.get("advantages")) is not None and not advantages.is_nested:
        for tag, advantage in zip(batch.tags, advantages.tolist(), strict=True):
            tag["advantage"] = advantage
    if "value" in names:
        dtype = get(batch, "values")["values"].dtype  # the queue drops a field of another one, and only logs it
        fields["values"] = each_token(fields["values"], mask()).to(dtype)
    if "return" in names:
        fields["returns"] = each_token(fields["returns"], mask())
        fields[VALUE_MASK] = jagged(_learned_values(batch, rows) * mask().values(), batch)
    if "observation" in names:
        weight = each_token(fields[field_of("observation")], mask()).values()
        fields[field_of("observation")] = jagged(weight * (1 - mask().values()) * _unanswered(batch, rows), batch)
    own_tokens = [0.0 if tag.get("is_padding", False) else tag["own_tokens"] for tag in batch.tags]
    if loss.divided_by is not None:
        name = field_of(loss.divided_by)
        own_tokens = _sums(batch, (fields if name in fields else get(batch, name))[name], own_tokens, mask)
    sessions, updates = [session_of(key) for key in batch.keys], [update_of[key] for key in batch.keys]
    weights = token_weights(own_tokens, sessions, updates, loss.config.aggregation, longest)
    return put(batch, fields | {LOSS_WEIGHT: torch.tensor(weights)})


def _fill_padding(batch: KVBatchMeta, rows: Mapping[str, Row], names: Collection[str]) -> None:
    """Write 0 on the padding of a batch, whose rows have these streams in the queue."""
    padding = batch.select_keys([key for key in batch.keys if key not in rows])
    if not (len(padding) and names):
        return
    known = get(batch.select_keys([*rows][:1]), *map(field_of, names))
    zeros = torch.zeros(sum(tag["response_len"] for tag in padding.tags))
    put(padding, {field_of(name): jagged(zeros.to(known[field_of(name)].dtype), padding) for name in names})


def _stream(batch: KVBatchMeta, rows: Mapping[str, Row], name: str) -> torch.Tensor:
    """A stream of the rows: [rows] where each has one number, else jagged [rows, tokens]; 0 on padding."""
    of_rows = [rows[key].streams[name] if key in rows else 0.0 for key in batch.keys]
    if any(isinstance(stream, Sequence) for stream in of_rows):
        return over_tokens(batch, rows, lambda row: row.streams[name])
    return torch.tensor(of_rows, dtype=torch.float32)


def _sums(
    batch: KVBatchMeta, values: torch.Tensor, own_tokens: Sequence[float], mask: Callable[[], torch.Tensor]
) -> list[float]:
    """By row, the sum of a stream over the model's own tokens, of which there are ``own_tokens``."""
    if not values.is_nested:
        return [value * number for value, number in zip(values.tolist(), own_tokens, strict=True)]
    return [float(row.sum()) for row in jagged(values.values() * mask().values(), batch).unbind()]


def write_rewards(batch: KVBatchMeta, rows: Mapping[str, Row]) -> None:
    """Put the reward of each row, its stream of that name, on its last token, field ``rm_scores``."""
    scores = [row.clone() for row in get(batch, "rm_scores")["rm_scores"].unbind()]
    for key, tag, score in zip(batch.keys, batch.tags, scores, strict=True):
        if key in rows:  # others are padding
            score[-1] = tag["score"] = rows[key].streams["reward"]
    put(batch, {"rm_scores": torch.nested.as_nested_tensor(scores, layout=torch.jagged)})


def turn_values(batch: KVBatchMeta, rollouts: Sequence[Rollout]) -> None:
    """Give rollouts the critic's value before each response, from the field ``values``."""
    values = get(batch, "values")["values"].to_padded_tensor(0)
    row_of = {(session_of(key), segment_of(key)): row for row, key in enumerate(batch.keys)}
    for rollout in rollouts:
        starts = [(row_of[rollout.key, turn.segment], turn.tokens[0]) for turn in rollout.episode.turns]
        rollout.values = [float(values[start]) for start in starts]


@contextmanager
def critic_learns_where_told(batch: KVBatchMeta) -> Iterator[None]:
    """Inside, the masks of the rows are 1 only where the critic learns, for verl's value loss and its mean."""
    names = ["response_mask", "loss_mask"]
    data = get(batch, *names, VALUE_MASK)
    put(batch, {name: data[VALUE_MASK].to(data[name].dtype) for name in names})
    yield
    put(batch, {name: data[name] for name in names})


def _learned_values(batch: KVBatchMeta, rows: Mapping[str, Row]) -> torch.Tensor:
    """[tokens of all rows]: 1 where the critic learns: on the first token of each response, or on all tokens."""
    of_rows = [torch.zeros(tag["response_len"], dtype=torch.int64) for tag in batch.tags]
    for key, starts in zip(batch.keys, of_rows, strict=True):
        if key not in rows:
            continue
        if isinstance(rows[key].streams["return"], PerToken):
            starts[:] = 1
        for turn in turns_of(rows[key]):
            if turn.segment == rows[key].number:
                starts[turn.tokens[0]] = 1
    return torch.cat(of_rows)


def _unanswered(batch: KVBatchMeta, rows: Mapping[str, Row]) -> torch.Tensor:
    """[tokens of all rows]: 0 on replayed responses, else 1."""
    of_rows = [torch.ones(tag["response_len"]) for tag in batch.tags]
    for key, tokens in zip(batch.keys, of_rows, strict=True):
        for begin, end in replayed(rows[key]) if key in rows else ():
            tokens[begin:end] = 0
    return torch.cat(of_rows)


def replayed(row: Row) -> Iterator[tuple[int, int]]:
    """Where responses stand that were replayed, counted from the first response of the row."""
    return (turn.tokens for turn in turns_of(row) if turn.segment == row.number and not turn.calls)


def advantage_metrics(batch: KVBatchMeta, rows: Mapping[str, Row]) -> Metrics:
    """Mean absolute advantage of the tokens in the first, middle and last third of the turns of their episodes.

    Tokens are read where a row has no tag that says its one advantage.
    """
    if all("advantage" in tag for tag in batch.tags):
        tokens = torch.tensor([tag["own_by_third"] for tag in batch.tags], dtype=torch.float64)
        size = torch.tensor([tag["advantage"] for tag in batch.tags], dtype=torch.float64).abs()
        tokens[[tag.get("is_padding", False) for tag in batch.tags]] = 0
        counts, sums = tokens.sum(0), (tokens * size.unsqueeze(-1)).sum(0)
    else:
        data = get(batch, "advantages", "loss_mask")
        place = over_tokens(batch, rows, lambda row: thirds(len(turns_of(row)))).values() * data["loss_mask"].values()
        size = each_token(data["advantages"], data["loss_mask"]).values().abs().double()
        counts = torch.bincount(place.long(), minlength=4)[1:]
        sums = torch.bincount(place.long(), size, minlength=4)[1:]
    names = ("diagnostics/advantage_first", "diagnostics/advantage_middle", "diagnostics/advantage_last")
    return {name: float(total / count) for name, total, count in zip(names, sums, counts, strict=True) if count}


def own_by_third(mask: torch.Tensor, turns: Sequence[Turn], segment: int) -> list[int]:
    """How many of the model's own tokens of a row are in the first, middle and last third of its episode's turns."""
    if not mask.any():  # of an episode that does not count there is one token, which no turn is about
        return [0, 0, 0]
    places, lengths = zip(*of_segment(turns, thirds(len(turns)), segment, len(mask)), strict=True)
    place = torch.repeat_interleave(torch.tensor(places, dtype=torch.int64), torch.tensor(lengths))
    counts: list[int] = torch.bincount(place * mask, minlength=4)[1:].tolist()
    return counts


def thirds(turns: int) -> list[int]:
    """1, 2 or 3 of each turn: the third of the turns that its middle is in, so that a single turn is in the middle."""
    return [1 + 3 * (2 * turn + 1) // (2 * turns) for turn in range(turns)]


def over_tokens(batch: KVBatchMeta, rows: Mapping[str, Row], of: Callable[[Row], Stream]) -> torch.Tensor:
    """Jagged [rows, tokens]: a stream of each row on the tokens of its responses, one after the other.

    Of one number a turn, a turn has its own up to the last token of its response. What stands between two responses
    belongs to the turn that follows: observations, and notes that the model writes when its context is folded. Rows of
    padding have 0.
    """
    all_pieces: list[tuple[float, int]] = []
    for key, tag in zip(batch.keys, batch.tags, strict=True):
        all_pieces += pieces(rows[key], of(rows[key]), tag) if key in rows else [(0.0, tag["response_len"])]
    values, lengths = zip(*all_pieces, strict=True)
    return jagged(torch.repeat_interleave(torch.tensor(values, dtype=torch.float32), torch.tensor(lengths)), batch)


def pieces(row: Row, stream: Stream, tag: Mapping[str, int]) -> list[tuple[float, int]]:
    """A stream on the tokens of a row from its first response on: numbers, and how many tokens have them.

    Raises:
        ValueError: it has one number a token, and not as many as there are.
    """
    width = tag["response_len"]
    if isinstance(stream, PerToken):
        if len(stream) != tag["seq_len"]:
            raise ValueError(f"a stream has {len(stream)} numbers for the {tag['seq_len']} tokens of {row.segment}")
        return [(value, 1) for value in stream[-width:]]
    if isinstance(stream, Sequence):
        return of_segment(turns_of(row), stream, row.number, width)
    return [(stream, width)]


def of_segment(turns: Sequence[Turn], numbers: Sequence[float], segment: int, width: int) -> list[tuple[float, int]]:
    """Numbers and how many tokens have them: up to the end of each turn its own; behind the last that of the next."""
    pieces: list[tuple[float, int]] = []
    begin = 0
    for turn, number in zip(turns, numbers, strict=True):
        if turn.segment == segment:
            pieces.append((number, turn.tokens[1] - begin))
            begin = turn.tokens[1]
    behind = [number for turn, number in zip(turns, numbers, strict=True) if turn.segment > segment] or [*numbers[-1:]]
    return [*pieces, (behind[0] if behind else 0.0, width - begin)]


def turns_of(row: Row) -> Sequence[Turn]:
    """The turns of its episode."""
    return () if row.episode is None else row.episode.turns


def each_token(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Jagged [rows, tokens] as ``like``: values that are already, or one number a row for each of its tokens."""
    return values if values.is_nested else torch.ones_like(like, dtype=values.dtype) * values.unsqueeze(-1)


def jagged(values: torch.Tensor, batch: KVBatchMeta) -> torch.Tensor:
    """Jagged [rows, tokens] of the values of all tokens of the responses, one row after the other."""
    rows = torch.split(values, [tag["response_len"] for tag in batch.tags])
    return torch.nested.as_nested_tensor([*rows], layout=torch.jagged)
