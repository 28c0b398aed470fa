"""The turns of a group with the highest entropy.

The rule is that of :mod:`agentgym_rl.algorithms.dart`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from statistics import fmean

from agentgym_rl.algorithms.base import Rollout, groups
from agentgym_rl.algorithms.checks import above, share
from agentgym_rl.algorithms.rows import PerToken, Row, Span
from agentgym_rl.data.episode import Episode, Turn


class By(StrEnum):
    """How the entropy of a turn is known."""

    SAMPLED = "sampled"
    EXACT = "exact"


@dataclass(kw_only=True)
class EntropyConfig:
    """Keys of ``algorithm.entropy``."""

    keep: float = 0.8
    """Share of a group's turns that are learned from, those with the highest entropy; 1 learns from all."""
    by: By = By.SAMPLED
    """The mean of :math:`-\\log \\pi` over a turn's sampled tokens (sampled), or the mean entropy of the tokens'
    distributions, for which the training workers read each episode once more (exact)."""

    def __post_init__(self) -> None:
        above(self, 0, "keep")
        share(self, "keep")

    def unused(self) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        return {} if self.keep < 1 else {"by": "algorithm.entropy.keep=1 learns from all turns"}


def sampled(rows: Sequence[Row]) -> dict[int, float]:
    """Entropies of turns, by identity, by what was sampled; in nats a token."""
    return {
        id(turn): -turn.log_prob / (end - start)
        for row in rows
        for turn, (start, end) in row.responses()
        if turn.log_prob is not None and start < end
    }


def exact(rows: Sequence[Row], name: str) -> dict[int, float]:
    """Entropies of turns, by identity, by a stream of those of their tokens."""
    return {
        id(turn): fmean(row.of_tokens(name)[start:end])
        for row in rows
        for turn, (start, end) in row.responses()
        if start < end
    }


def selected(
    rollouts: Sequence[Rollout], rows: Sequence[Row], entropies: Mapping[int, float], keep: float
) -> tuple[list[Row], float]:
    """The rows without the turns that do not count, and the share of turns that do.

    A turn whose entropy is not known counts. A row leaves if none of its turns counts.

    Args:
        rows: of the rollouts.
    """
    least: dict[int, float] = {}
    """Of the turns that count, by episode."""
    for group in groups(rollouts):
        known = [entropies.get(id(turn)) for rollout in group for turn in rollout.episode.turns]
        lowest = threshold([value for value in known if value is not None], keep)
        least |= {id(rollout.episode): lowest for rollout in group}

    def counts(episode: Episode | None, turn: Turn) -> bool:
        return entropies.get(id(turn), inf) >= least[id(episode)]

    shares = [counts(rollout.episode, turn) for rollout in rollouts for turn in rollout.episode.turns]
    reduced = [without(row, [span for turn, span in row.responses() if not counts(row.episode, turn)]) for row in rows]
    return [row for row in reduced if any(row.tokens.loss_weight)], fmean(shares) if shares else 1.0


def threshold(values: Sequence[float], keep: float) -> float:
    """The least of the highest values, of which there are ``keep`` of all or the next number above; without any, 0."""
    lowest = min(int((1 - keep) * len(values) + 1e-9), len(values) - 1)  # (1 - 0.8) * 5 is a bit below 1
    return sorted(values)[lowest] if values else 0.0


def without(row: Row, spans: Sequence[Span]) -> Row:
    """The row with the responses at these places as context alone, which is no more learned as observations than the
    prompt is."""
    before, after, streams = row.tokens.loss_weight, [*row.tokens.loss_weight], {**row.streams}
    for start, end in spans:
        after[start:end] = [0.0] * (end - start)
    if not isinstance(weight := streams.get("observation", ()), Sequence):
        behind = before[row.tokens.prompt :]
        streams["observation"] = PerToken([0.0] * row.tokens.prompt + [0.0 if each else weight for each in behind])
    return replace(row, segment=replace(row.tokens, loss_weight=after), streams=streams)
