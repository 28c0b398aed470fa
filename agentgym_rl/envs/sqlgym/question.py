"""A question, and where questions come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agentgym_rl.envs.sqlgym.sandbox import Limits, Source


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a database."""

    database: str
    text: str
    gold: str
    """A query that answers it."""
    evidence: str = ""
    """A hint on the meaning of the question's words and values (BIRD's term)."""
    version: str = ""
    """Distinguishes databases of one name."""

    def __str__(self) -> str:
        place = " ".join(filter(None, [self.database, self.version]))
        return " ".join(f"{place}: {self.text} {self.evidence}".split())


class Collection(Protocol):
    """Questions by task index, and their databases."""

    limits: Limits
    """What a query may use."""

    @property
    def splits(self) -> Mapping[str, range]:
        """Task indices of each split."""

    def question(self, index: int) -> Question:
        """The question of a task.

        Raises:
            TaskNotFound: there is no such task.
        """

    def difficulty(self, index: int) -> str:
        """A label for the task.

        Raises:
            TaskNotFound: there is no such task.
        """

    def source(self, index: int) -> Source:
        """The task's database.

        Raises:
            TaskNotFound: there is no such task.
        """
