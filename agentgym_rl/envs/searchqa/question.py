"""A question, and where questions come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its golden answers."""

    text: str
    answers: tuple[str, ...]
    """Right answers, the plainest first."""
    source: str = ""
    """The data set that an official question is from."""
    queries: tuple[str, ...] = ()
    """What to search for, step by step; empty where that is not known."""
    needed: tuple[str, ...] = ()
    """Title of the article that each query has to find."""


class Collection(Protocol):
    """Questions by task index."""

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
