"""Figures of a set of episodes: success with n and interval, reward, turns, errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.eval.intervals import wilson

DECODINGS = ("sampled", "greedy")
"""How responses are drawn on a panel: at temperature 1, and the likeliest token."""


@dataclass(frozen=True, slots=True)
class Score:
    """Success and its companions over the episodes that count."""

    success: float
    ci95: tuple[float, float]
    n: int
    """Episodes that count."""
    reward: float
    turns: float
    error_rate: float
    """Episodes that failed outside the agent, as a share of all."""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ci95": list(self.ci95)}


def score(episodes: Sequence[Episode]) -> Score:
    """Score episodes; those that do not count only enter the error rate."""
    counted = [episode for episode in episodes if episode.ending.counts]
    n, successes = len(counted), sum(episode.success for episode in counted)
    return Score(
        success=successes / n if n else 0.0,
        ci95=wilson(successes, n),
        n=n,
        reward=sum(episode.reward for episode in counted) / n if n else 0.0,
        turns=sum(len(episode.turns) for episode in counted) / n if n else 0.0,
        error_rate=1.0 - n / len(episodes) if episodes else 0.0,
    )
