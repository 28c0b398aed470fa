"""Turn limits of single tasks, by the turns of their successes.

The rule is that of :mod:`agentgym_rl.algorithms.dart`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from agentgym_rl.algorithms.base import Request, Rollout
from agentgym_rl.algorithms.checks import at_least
from agentgym_rl.algorithms.restarts import task_of


@dataclass(kw_only=True)
class LimitConfig:
    """Keys of ``algorithm.limit``."""

    slack: float | None = 1.0
    """Turn limit of a task by the turns of its longest success so far; null leaves limits as they are."""
    after: int = 2
    """Successes of a task from which on it has a limit of its own."""
    probe: int = 10
    """Every so many groups of a task, one has the full limit; 1 has it always."""

    def __post_init__(self) -> None:
        at_least(self, 1, "after", "probe", *(["slack"] if self.slack is not None else []))

    def unused(self) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        if self.slack is not None:
            return {}
        return dict.fromkeys(("after", "probe"), "algorithm.limit.slack=null leaves limits as they are")


@dataclass(slots=True, kw_only=True)
class Played:
    """What the groups of a task came to."""

    groups: int = 0
    successes: int = 0
    longest: int = 0
    """Turns of its longest success."""

    def limit(self, config: LimitConfig, full: int | None, ahead: int = 0) -> int | None:
        """Turn limit of a group after ``ahead`` others; ``full`` is that of environment and curriculum."""
        number = self.groups + ahead + 1
        if config.slack is None or self.successes < config.after or number % config.probe == 0:
            return full
        limit = ceil(config.slack * self.longest - 1e-9)  # 1.1 * 10 is a bit above 11
        return limit if full is None else min(limit, full)


class Limits:
    """The limits of all tasks."""

    def __init__(self, config: LimitConfig) -> None:
        self.config = config
        self.played: dict[str, Played] = {}
        """By task."""

    def plan(self, drawn: Sequence[Request]) -> list[Request]:
        """The requests of a step with limits of their own."""
        planned, met = list[Request](), Counter[str]()
        for request in drawn:
            task = str(request.task)
            limit = self.played.get(task, Played()).limit(self.config, request.max_turns, met[task])
            planned.append(replace(request, max_turns=limit))
            met[task] += 1
        return planned

    def observe(self, groups: Sequence[Sequence[Rollout]]) -> None:
        """Take in the groups of a step."""
        for group in groups if self.config.slack is not None else ():
            won = [len(rollout.episode.turns) for rollout in group if rollout.episode.success]
            played = self.played.setdefault(str(task_of(group[0].episode)), Played())
            played.groups += 1
            played.successes += len(won)
            played.longest = max([played.longest, *won])

    def state(self) -> dict[str, list[int]]:
        """JSON types."""
        return {task: [each.groups, each.successes, each.longest] for task, each in self.played.items()}

    def load(self, state: Mapping[str, Sequence[int]]) -> None:
        """The inverse of :meth:`state`."""
        self.played = {
            task: Played(groups=groups, successes=successes, longest=longest)
            for task, (groups, successes, longest) in state.items()
        }
