"""Figures of a set of episodes: success with n and interval, reward, turns, errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import EnvUnavailable
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


def check_counted(counted: int, episodes: int, least: float, error: str | None, key: str = "min_counted") -> None:
    """Check that enough episodes count for a figure to mean something.

    Args:
        counted: episodes that count.
        episodes: all of them; without any there is nothing to check.
        least: share of the episodes that must count; one must in any case.
        error: of an episode that does not.
        key: the setting that ``least`` comes from.

    Raises:
        EnvUnavailable: fewer count; names the error and the setting.
    """
    if episodes and (not counted or counted < least * episodes):
        raise EnvUnavailable(
            f"only {counted} of {episodes} episodes count ({key}={least:g}); the others failed outside the "
            f"agent, such as by: {error}"
        )


def errors(episodes: Sequence[Episode]) -> dict[str, int]:
    """What failed outside the agent: episodes by ending, and attempts that were ``retried``; only what there is."""
    found = Counter(episode.ending.value for episode in episodes if not episode.ending.counts)
    found["retried"] = sum(episode.attempts - 1 for episode in episodes)
    return dict(+found)


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
