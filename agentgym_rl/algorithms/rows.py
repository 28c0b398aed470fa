"""Rows, which updates learn from: token sequences with named streams of numbers.

A stream has one number for the whole row, one for each turn of its episode or, as :class:`PerToken`, one for each
token. Of the first two, a token has the number if the model wrote it. Of rows whose tokens stay with the engine, one
number a row is never spread over tokens before a training worker needs it.

A loss says which streams it reads (:attr:`.losses.base.Loss.streams`). Any of these may stand beside them:

===============  ======================================================================================================
observation      weight of a cross-entropy loss on tokens outside of all responses, those replayed included, added to
                 any other loss
reward           of the episode, for verl's estimators and metrics; without it, that of the environment
return, value    with a critic: what it learns, and what it said before; one a turn
===============  ======================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

from agentgym_rl.data.episode import Episode, Turn
from agentgym_rl.rollout.supervised import Example

Span = tuple[int, int]
"""Tokens [start, end) of a segment."""


class PerToken(tuple[float, ...]):
    """One number for each token of a segment, those of its prompt included."""

    __slots__ = ()


class WithEngine(PerToken):
    """Numbers that :meth:`.base.Run.score` left with the engine, beside the tokens of their row."""

    __slots__ = ()


Stream = float | Sequence[float]
"""One number, one a turn or, as :class:`PerToken`, one a token."""


def mapped(stream: Stream, of: Callable[[float], float]) -> Stream:
    """A stream with what a function makes of each of its numbers."""
    if isinstance(stream, PerToken):
        return PerToken(map(of, stream))
    return [*map(of, stream)] if isinstance(stream, Sequence) else of(stream)


@dataclass(slots=True)
class Row:
    """A token sequence, and what an update is told of it."""

    segment: Example | str
    """The tokens, or the key under which the engine keeps them."""
    streams: Mapping[str, Stream]
    """By name."""
    episode: Episode | None = None
    """Whose turns a stream of one number a turn counts; a demonstration has none."""
    number: int = 0
    """Of the segment in its episode."""

    @property
    def tokens(self) -> Example:
        """The segment of a row that has its tokens."""
        assert isinstance(self.segment, Example)
        return self.segment

    def responses(self) -> Iterator[tuple[Turn, Span]]:
        """The turns of a row that has its tokens, and where their responses stand."""
        return located(self.episode, self.number, self.tokens)

    def of_tokens(self, name: str) -> PerToken:
        """A stream of one number a token."""
        stream = self.streams[name]
        assert isinstance(stream, PerToken)
        return stream


def streams_of(rows: Sequence[Row]) -> frozenset[str]:
    """The names of the streams, which all rows of an update have.

    Raises:
        ValueError: a row has other streams, or a stream another length than its turns or tokens; some rows have their
            tokens, and others a key.
    """
    names, by_key = rows[0].streams.keys(), isinstance(rows[0].segment, str)
    for row in rows:
        if row.streams.keys() != names:
            raise ValueError(f"rows of one update have different streams: {sorted(names)} and {sorted(row.streams)}")
        if isinstance(row.segment, str) != by_key:
            raise ValueError("rows of one update have their tokens, or all stay with the engine; learn from each alone")
        for name, stream in row.streams.items():
            if isinstance(stream, Sequence):
                _check_length(row, name, stream)
    return frozenset(names)


def _check_length(row: Row, name: str, stream: Sequence[float]) -> None:
    if not isinstance(stream, PerToken):
        turns = 0 if row.episode is None else len(row.episode.turns)
        if len(stream) != turns:
            raise ValueError(f"stream {name!r} has {len(stream)} numbers for an episode of {turns} turns")
    elif isinstance(row.segment, Example) and len(stream) != len(row.segment.input_ids):
        raise ValueError(f"stream {name!r} has {len(stream)} numbers for {len(row.segment.input_ids)} tokens")


def imitation(example: Example, weight: float = 1.0, observations: float = 0.0, unlearned: Sequence[Span] = ()) -> Row:
    """A row of the cross-entropy loss.

    Args:
        weight: of the tokens that the model wrote.
        observations: of all others but the first, which nothing precedes.
        unlearned: tokens that are context alone.
    """
    if not observations and not unlearned:
        return Row(example, {"cross_entropy": weight})
    weights = [0.0, *(weight * learned if learned else observations for learned in example.loss_weight[1:])]
    for start, end in unlearned:
        weights[start:end] = [0.0] * (end - start)
    return Row(example, {"cross_entropy": PerToken(weights)})


def unlearned(episode: Episode | None, number: int, example: Example, *, learn_invalid: bool) -> tuple[Span, ...]:
    """Where responses stand in a segment of an episode that are context alone.

    These are those without a loss and, without ``learn_invalid``, those whose action was refused.
    """
    return tuple(
        (start, end)
        for turn, (start, end) in located(episode, number, example)
        if (turn.invalid and not learn_invalid) or (start < end and not any(example.loss_weight[start:end]))
    )


def located(episode: Episode | None, number: int, example: Example) -> Iterator[tuple[Turn, Span]]:
    """The turns of an episode in one of its segments, and where their responses stand."""
    for turn in episode.turns if episode is not None else ():
        if turn.segment == number:
            yield turn, span(example, turn)


def span(example: Example, turn: Turn) -> Span:
    """Where the response of a turn stands in its segment."""
    start, end = turn.tokens
    return example.prompt + start, example.prompt + end


def whitened(rows: Sequence[Row]) -> list[Row]:
    """The rows with advantages of mean 0 and variance 1 over the tokens of all responses, as verl whitens them.

    Replayed responses take no part, nor do notes on folded contexts.
    """
    tokens = [each for row in rows for each in _responses(row)]
    count = sum(length for _, length in tokens)
    mean = sum(advantage * length for advantage, length in tokens) / max(1, count)
    variance = sum((advantage - mean) ** 2 * length for advantage, length in tokens) / max(1, count - 1)
    scale = 1 / sqrt(variance + 1e-8)

    def white(row: Row) -> Stream:
        return mapped(row.streams["advantage"], lambda value: (value - mean) * scale)

    return [replace(row, streams={**row.streams, "advantage": white(row)}) for row in rows]


def _responses(row: Row) -> Iterator[tuple[float, int]]:
    """The advantage of each response of a row, and its length."""
    for turn, advantage in zip(row.episode.turns if row.episode else (), of_turns(row, "advantage"), strict=True):
        if turn.segment == row.number and turn.calls:
            yield advantage, turn.tokens[1] - turn.tokens[0]


def of_turns(row: Row, name: str) -> Sequence[float]:
    """A stream as one number a turn.

    Raises:
        ValueError: it has one number a token.
    """
    stream = row.streams[name]
    if isinstance(stream, PerToken):
        raise ValueError(f"stream {name!r} has a number for each token, not for each turn")
    if isinstance(stream, Sequence):
        return stream
    return [stream] * (len(row.episode.turns) if row.episode else 0)


def note_advantages(rows: Sequence[Row]) -> None:
    """Write down in the episodes of an update what it takes their turns to be worth."""
    for row in rows:
        advantage = row.streams.get("advantage")
        if row.episode is not None and advantage is not None and not isinstance(advantage, PerToken):
            row.episode.advantages[:] = of_turns(row, "advantage")
