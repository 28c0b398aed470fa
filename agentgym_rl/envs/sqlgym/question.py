"""What a task asks, whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agentgym_rl.envs.sqlgym.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a database."""

    database: str
    text: str
    gold: str
    """A query that answers it."""
    evidence: str = ""
    """A hint on what words and values of the question mean (BIRD's term)."""
    version: str = ""
    """Tells databases of one name apart."""

    def __str__(self) -> str:
        place = " ".join(filter(None, [self.database, self.version]))
        return " ".join(f"{place}: {self.text} {self.evidence}".split())


class Collection(Protocol):
    """Questions by task index, and their databases."""

    @property
    def splits(self) -> Mapping[str, range]:
        """Task indices of each split."""

    def question(self, index: int) -> Question:
        """What a task asks.

        Raises:
            TaskNotFound: there is no such task.
        """

    def difficulty(self, index: int) -> str:
        """A label for the task.

        Raises:
            TaskNotFound: there is no such task.
        """

    def open(self, index: int) -> Sandbox:
        """The task's database.

        Raises:
            TaskNotFound: there is no such task.
        """
