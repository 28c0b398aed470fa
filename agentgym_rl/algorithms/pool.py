"""Successes of tasks, kept for groups that have none.

The rules are those of :mod:`agentgym_rl.algorithms.dart`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.checks import at_least
from agentgym_rl.algorithms.restarts import Source, task_of
from agentgym_rl.algorithms.rows import PerToken, Row
from agentgym_rl.data.episode import Episode, shallow
from agentgym_rl.rollout.supervised import Example

POOLED = "pooled"
"""Tag of an episode that took a place in a group: the key of what is kept, empty for a demonstration."""


class When(StrEnum):
    """Which groups get successes."""

    NONE_SOLVED = "none_solved"
    BELOW = "below"


@dataclass(kw_only=True)
class PoolConfig:
    """Keys of ``algorithm.pool``."""

    size: int = 1
    """Own successes that are kept of a task, the newest; 0 puts none into groups."""
    source: Source = Source.OWN
    """Whose successes groups get: the policy's own, those of demonstrations, or both, own ones first."""
    when: When = When.NONE_SOLVED
    """Groups without a success get one (none_solved); those with fewer than ``pool.least`` as many as they lack
    (below)."""
    least: int = 2
    """Successes of a group, as far as the pool has others."""

    def __post_init__(self) -> None:
        at_least(self, 0, "size")
        at_least(self, 1, "least")

    def unused(self) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        if not self.size:
            others = {key.name for key in fields(self)} - {"size"}
            return dict.fromkeys(others, "algorithm.pool.size=0 puts nothing into groups")
        reasons = {}
        if self.when is When.NONE_SOLVED:
            reasons["least"] = "algorithm.pool.when=none_solved puts one success into a group"
        if self.size > 1 and not self.takes:
            reasons["size"] = f"algorithm.pool.source={self.source} keeps no own successes; 1 is enough"
        return reasons

    @property
    def takes(self) -> bool:
        """Whether it keeps own successes."""
        return self.size > 0 and self.source is not Source.DEMONSTRATIONS

    @property
    def shows(self) -> bool:
        """Whether groups get demonstrations."""
        return self.size > 0 and self.source is not Source.OWN

    def lacks(self, successes: int) -> int:
        """How many successes a group with so many gets at most."""
        least = self.least if self.when is When.BELOW else 1
        return max(0, least - successes)


@dataclass(slots=True, kw_only=True)
class Kept:
    """A success, with its tokens."""

    rollout: Rollout
    step: int
    """That sampled it."""
    sampled: list[PerToken]
    """Of each segment, the log-probabilities of its tokens by the weights that sampled it, in nats."""

    @property
    def key(self) -> str:
        return f"{self.step}:{self.rollout.key}"


class Pool:
    """The newest successes of each task."""

    def __init__(self, config: PoolConfig) -> None:
        self.config = config
        self.kept: dict[str, list[Kept]] = {}
        """By task, the oldest first."""
        self.shown: dict[str, list[Rollout]] = {}
        """Demonstrations by task."""

    def demonstrate(self, demonstrations: Sequence[Rollout]) -> None:
        """Take in the demonstrations of a run, in place of those before."""
        self.shown = {}
        for rollout in demonstrations:
            self.shown.setdefault(str(task_of(rollout.episode)), []).append(rollout)

    def fill(self, group: Sequence[Rollout]) -> list[Rollout]:
        """A group with successes of its task in the place of its first failures, as many as it lacks."""
        failures = [place for place, rollout in enumerate(group) if not rollout.episode.success]
        lacking, filled = self.config.lacks(len(group) - len(failures)), [*group]
        for place, (key, success) in zip(failures[:lacking], self._of(group[0].episode), strict=False):
            tags = {**success.episode.tags, POOLED: key}
            limit = (success if key else group[0]).episode.max_turns  # a demonstration's own is its length
            episode = replace(success.episode, tags=tags, max_turns=limit, advantages=[])  # others may have it, too
            filled[place] = replace(success, group=group[0].group, episode=episode)
        return filled

    def _of(self, episode: Episode) -> list[tuple[str, Rollout]]:
        """The successes of an episode's task that answer the same prompt, with their keys, the newest first."""
        task, asked = str(task_of(episode)), episode.messages[: episode.start]
        successes = [(kept.key, kept.rollout) for kept in reversed(self.kept.get(task, []))]
        successes += [("", rollout) for rollout in self.shown.get(task, [])]
        return [(key, each) for key, each in successes if each.episode.messages[: each.episode.start] == asked]

    def sampled(self, row: Row) -> PerToken | None:
        """Of a row of a success that took a place, :attr:`Kept.sampled`; None of a demonstration."""
        key = row.episode.tags[POOLED] if row.episode is not None else ""
        matches = (kept.sampled[row.number] for of_task in self.kept.values() for kept in of_task if kept.key == key)
        return next(matches, None)

    def take(self, success: Rollout, step: int, sampled: Sequence[PerToken]) -> None:
        """Keep a success, in the place of the oldest of its task where there are enough."""
        task, kept = str(task_of(success.episode)), Kept(rollout=success, step=step, sampled=[*sampled])
        self.kept[task] = [*self.kept.get(task, []), kept][-self.config.size :]

    def state(self) -> list[dict[str, Any]]:
        """JSON types."""
        return [
            {
                "step": kept.step,
                "key": kept.rollout.key,
                "episode": kept.rollout.episode.to_dict(),
                "segments": [shallow(segment) for segment in kept.rollout.segments],
                "sampled": [[*each] for each in kept.sampled],
            }
            for of_task in self.kept.values()
            for kept in of_task
        ]

    def load(self, state: Sequence[Mapping[str, Any]]) -> None:
        """The inverse of :meth:`state`."""
        self.kept = {}
        for each in state:
            segments = [Example(**segment) for segment in each["segments"]]
            rollout = Rollout(episode=Episode.from_dict(each["episode"]), segments=segments, key=each["key"])
            self.take(rollout, each["step"], [*map(PerToken, each["sampled"])])
