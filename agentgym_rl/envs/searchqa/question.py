"""A question."""

from dataclasses import dataclass


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
