"""From task indices to problems: numbering, splits, difficulty. Everything is a function of the index.

Indices below :data:`FIRST` are AgentGym's. From there on the levels of difficulty take turns, then the kinds of tasks
of a level. The hash of a task's calls and answer decides which split may use it, so no task is in two splits, whatever
its wording.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any, Generic

from agentgym_rl.envs.core import EnvError
from agentgym_rl.envs.splits import Splits, fingerprint
from agentgym_rl.envs.tooluse.problem import Draft, NoTask, Problem
from agentgym_rl.envs.tooluse.tool import S

FIRST = 1_000
"""Index of the first generated task."""

RANGES: Mapping[str, range] = {
    "train": range(FIRST, 1_400),
    "test": range(1_400, 1_500),
    "train_variants": range(2_000, 12_000),
    "val_variants": range(12_000, 13_000),
    "test_variants": range(13_000, 14_000),
}
"""Task indices of each split."""

ONCE = ("train", "test")
"""Splits without a task that occurs twice."""

DRAWS = 10_000
"""Most draws for one task."""

Kind = Callable[[Any], Problem[Any]]
"""Makes a problem of a draft, or raises :class:`NoTask`; then the next draft is tried."""


class TaskSource(ABC, Generic[S]):
    """The tasks of an environment."""

    splits: Mapping[str, Sequence[int]]

    @abstractmethod
    def problem(self, index: int) -> Problem[S]:
        """The task of an index. Raises TaskNotFound: there is none."""

    @abstractmethod
    def difficulty(self, index: int) -> str:
        """The label of an index's difficulty, without drawing the task. Raises TaskNotFound: there is no such task."""


class GeneratedTasks(TaskSource[S]):
    """Tasks drawn at random.

    Args:
        env: the environment's name.
        draft: class of the drafts that the kinds of tasks take.
        levels: kinds of tasks by the number of calls, ``finish`` among them, of their plans.
    """

    def __init__(self, env: str, draft: type[Draft[S]], levels: Mapping[range, Sequence[Kind]]) -> None:
        texts = draft.texts
        self.splits: Splits = Splits(env, RANGES, official=range(texts.official), missing=texts.missing)
        self.levels = levels
        self._draft = draft

    def problem(self, index: int) -> Problem[S]:
        return _draw(self, index)

    def difficulty(self, index: int) -> str:
        self.splits.locate(index)
        level = self._level(index)
        return f"calls {level[0]}" if len(level) == 1 else f"calls {level[0]}-{level[-1]}"

    def draw(self, index: int) -> Problem[S]:
        """Draw the task of an index.

        Raises:
            TaskNotFound: it is no generated task.
            EnvError: :data:`DRAWS` draws give no task.
        """
        split, _ = self.splits.locate(index)
        level = self._level(index)
        kinds = self.levels[level]
        kind = kinds[(index - FIRST) // len(self.levels) % len(kinds)]
        taken = self._taken(split, index, len(self.levels) * len(kinds))
        rng = Random(f"{self.splits.env} 0:{index}")
        for _ in range(DRAWS):
            try:
                problem = kind(self._draft(rng))
            except NoTask:
                continue
            if len(problem.plan) not in level or problem.label in taken:
                continue
            if self.splits.owns(split, fingerprint(f"{problem.context} {problem.plan}", 16)):
                return problem
        raise EnvError(f"{DRAWS} draws of {kind} gave no task of {level} calls for {self.splits.env}_{index}")

    def _level(self, index: int) -> range:
        """Possible lengths of the plan of a generated task."""
        return list(self.levels)[(index - FIRST) % len(self.levels)]

    def _taken(self, split: str, index: int, stride: int) -> set[str]:
        """Labels of the earlier tasks of the same kind, in splits where no task may occur twice."""
        if split not in ONCE:
            return set()
        first = RANGES[split].start
        return {self.problem(before).label for before in range(first + (index - first) % stride, index, stride)}


@lru_cache(maxsize=1024)
def _draw(tasks: GeneratedTasks[S], index: int) -> Problem[S]:
    return tasks.draw(index)
