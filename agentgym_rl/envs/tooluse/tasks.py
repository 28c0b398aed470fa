"""From task indices to problems: numbering, splits, difficulty. Everything is a function of the index.

Indices below :data:`FIRST` are AgentGym's. From there on the levels of difficulty take turns, then the templates of a
level. The hash of a task's calls and answer decides which split may use it, so no task is in two splits, however it is
worded.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Generic

from agentgym_rl.envs.core import EnvError, TaskNotFound
from agentgym_rl.envs.tooluse.problem import Problem
from agentgym_rl.envs.tooluse.tool import S

FIRST = 1_000
"""First index of a task of ours."""

SPLITS: Mapping[str, range] = {
    "train": range(FIRST, 1_400),
    "test": range(1_400, 1_500),
    "train_variants": range(2_000, 12_000),
    "val_variants": range(12_000, 13_000),
    "test_variants": range(13_000, 14_000),
}
"""Task indices of each split."""

SHARES: Mapping[str, range] = {
    "train": range(0, 2),
    "test": range(2, 3),
    "train_variants": range(3, 8),
    "val_variants": range(8, 9),
    "test_variants": range(9, 10),
}
"""The last decimal digits of hashes that belong to each split."""

ONCE = ("train", "test")
"""Splits without a task that occurs twice."""

DRAWS = 10_000
"""Draws a template may need for a task."""

Template = Callable[[Random], Problem[S] | None]
"""Draws a problem, or None where what was drawn makes none: the answer would not be unique, say."""


class Catalogue(ABC, Generic[S]):
    """The tasks of a world."""

    splits: Mapping[str, Sequence[int]]

    @abstractmethod
    def problem(self, index: int) -> Problem[S]:
        """The task of an index.

        Raises:
            TaskNotFound: there is none.
        """

    @abstractmethod
    def difficulty(self, index: int) -> str:
        """The label of an index's difficulty, without drawing the task.

        Raises:
            TaskNotFound: there is no such task.
        """


@dataclass(frozen=True, eq=False)
class Drawn(Catalogue[S]):
    """Tasks drawn from templates.

    Args:
        name: the world's.
        levels: templates by the number of calls, ``finish`` among them, that the plans of their tasks take.
        official: AgentGym's task indices.
        missing: what to do for the official tasks, the end of the error an official index raises.
    """

    name: str
    levels: Mapping[range, Sequence[Template[S]]]
    official: range
    missing: str
    splits: Mapping[str, Sequence[int]] = field(default_factory=lambda: SPLITS)

    def problem(self, index: int) -> Problem[S]:
        return _draw(self, index)

    def difficulty(self, index: int) -> str:
        self.split(index)
        level = self.level(index)
        return f"calls {level[0]}" if len(level) == 1 else f"calls {level[0]}-{level[-1]}"

    def level(self, index: int) -> range:
        """Numbers of calls the plan of a task of ours may take."""
        return list(self.levels)[(index - FIRST) % len(self.levels)]

    def split(self, index: int) -> str:
        """The split a task of ours belongs to.

        Raises:
            TaskNotFound: it is none of ours.
        """
        for name, indices in SPLITS.items():
            if index in indices:
                return name
        if index in self.official:
            raise TaskNotFound(f"{self.name}_{index} is a task of AgentGym's: {self.missing}")
        ranges = ", ".join(f"{indices[0]} to {indices[-1]} ({name})" for name, indices in SPLITS.items())
        raise TaskNotFound(f"{self.name} has no task {index}: valid are {ranges}")

    def draw(self, index: int) -> Problem[S]:
        """Draw the task of an index.

        Raises:
            TaskNotFound: it is none of ours.
            EnvError: the template gives no task.
        """
        split = self.split(index)
        level = self.level(index)
        templates = self.levels[level]
        template = templates[(index - FIRST) // len(self.levels) % len(templates)]
        taken = self._taken(split, index, len(self.levels) * len(templates))
        rng = Random(f"{self.name} 0:{index}")
        for _ in range(DRAWS):
            problem = template(rng)
            if problem is None or len(problem.plan) not in level or _digit(problem) not in SHARES[split]:
                continue
            if problem.label not in taken:
                return problem
        raise EnvError(f"template {template} gave no task of {level} calls for {self.name}_{index} in {DRAWS} draws")

    def _taken(self, split: str, index: int, stride: int) -> set[str]:
        """Labels of the tasks of the same template before this one, where none may occur twice."""
        if split not in ONCE:
            return set()
        first = SPLITS[split].start
        return {self.problem(before).label for before in range(first + (index - first) % stride, index, stride)}


@lru_cache(maxsize=1024)
def _draw(tasks: Drawn[S], index: int) -> Problem[S]:
    return tasks.draw(index)


def _digit(problem: Problem[S]) -> int:
    content = f"{problem.context} {problem.plan}"
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:8]) % 10
