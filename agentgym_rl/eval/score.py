"""Figures of a set of episodes: success with n and interval, reward, turns, errors."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.eval.intervals import Interval, share_interval

DECODINGS = ("sampled", "greedy")
"""How responses are drawn on a panel: at temperature 1, and the likeliest token."""


@dataclass(frozen=True, slots=True)
class Score:
    """Success and its companions over the episodes that count; None where there is no episode to take them of.

    Means are over tasks: a task weighs the same however many of its episodes count.
    """

    success: float | None
    ci95: Interval | None
    """Of success, see :func:`agentgym_rl.eval.intervals.share_interval`."""
    n: int
    """Episodes that count."""
    tasks: int
    """Tasks of these episodes."""
    reward: float | None
    turns: float | None
    error_rate: float | None
    """Episodes that failed outside the agent, as a share of all."""
    by_task: tuple[float | None, ...]
    """Success of each task, by item id; None where none of its episodes counts."""

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self), "ci95": None if self.ci95 is None else list(self.ci95), "by_task": list(self.by_task),
        }  # fmt: skip


def score(episodes: Sequence[Episode], seed: str) -> Score:
    """Score episodes, in any order; those that do not count only enter the error rate.

    Args:
        seed: equal seeds resample the same tasks for the interval.
    """
    tasks: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.ending.counts:
            tasks.setdefault(episode.item_id, []).append(episode)
    success = {item_id: fmean(episode.success for episode in tasks[item_id]) for item_id in sorted(tasks)}
    n = sum(map(len, tasks.values()))
    return Score(
        success=fmean(success.values()) if tasks else None,
        ci95=share_interval(list(success.values()), seed) if tasks else None,
        n=n,
        tasks=len(tasks),
        reward=fmean(fmean(episode.reward for episode in episodes_of_task) for episodes_of_task in tasks.values())
        if tasks
        else None,
        turns=fmean(fmean(len(episode.turns) for episode in episodes_of_task) for episodes_of_task in tasks.values())
        if tasks
        else None,
        error_rate=1.0 - n / len(episodes) if episodes else None,
        by_task=tuple(success.get(item_id) for item_id in sorted({episode.item_id for episode in episodes})),
    )


def errors(episodes: Sequence[Episode]) -> dict[str, int]:
    """What failed outside the agent: episodes by ending, and attempts that were ``retried``; only what there is."""
    counts = Counter(episode.ending.value for episode in episodes if not episode.ending.counts)
    counts["retried"] = sum(episode.attempts - 1 for episode in episodes)
    return dict(+counts)
