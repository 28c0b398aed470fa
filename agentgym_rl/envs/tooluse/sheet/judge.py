"""How far a workbook has come from one state to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.formula import Value

TOLERANCE = 0.006
"""Numbers this close are equal, so that they may be rounded to two digits after the point."""

Key = tuple[Any, ...]
"""A sheet's name, alone or with a row and a column, a note's place or a merged area."""


@dataclass
class Judge:
    """The ``progress`` of a task: the share of what must change that is as in ``after``.

    Everything else that was changed takes one back; 1 is reached only where all is as in ``after``.
    """

    start: Book
    after: Book
    """Must differ from ``start``."""
    only: str | None = None
    """Look at the cells of this sheet alone."""

    def __call__(self, book: Book, answer: Any) -> float:
        now = facts(book)
        wrong = self._different(now, self._after, self._judged(now.keys() | self._after.keys()) | self._due)
        return max(0.0, (len(self._due - wrong) - len(wrong - self._due)) / len(self._due))

    @cached_property
    def _after(self) -> Mapping[Key, Value]:
        return facts(self.after)

    @cached_property
    def _due(self) -> set[Key]:
        """What must change."""
        start = facts(self.start)
        return self._different(start, self._after, self._judged(start.keys() | self._after.keys()))

    def _judged(self, keys: Iterable[Key]) -> set[Key]:
        return {key for key in keys if key[0] == self.only and len(key) == 3} if self.only else set(keys)

    def _different(self, one: Mapping[Key, Value], other: Mapping[Key, Value], keys: set[Key]) -> set[Key]:
        return {key for key in keys if not _same(one.get(key), other.get(key))}


def facts(book: Book) -> Mapping[Key, Value]:
    """Sheets, what their cells show, notes and merged areas. Frozen rows and the open sheet do not count."""
    found: dict[Key, Value] = {}
    for title, grid in book.sheets.items():
        found[title,] = ""
        found |= {
            (title, y, x): value
            for y, row in enumerate(grid.values(), 1)
            for x, value in enumerate(row, 1)
            if value != ""
        }
        found |= {(title, "note", *place): note for place, note in grid.notes.items()}
        found |= {(title, "merged", *area): "" for area in grid.merged}
    return found


def _same(one: Value | None, other: Value | None) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= TOLERANCE
    return one == other
