"""The progress of a workbook from one state to another."""

from collections.abc import Mapping
from typing import Any

from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.formula import Value

TOLERANCE = 0.006
"""Largest difference of equal numbers, so that two digits after the point suffice."""

Key = tuple[Any, ...]
"""The name of a sheet, alone or with row and column, the place of a note, or a merged area."""


class Judge:
    """The ``progress`` of a task: the share of what must change that is as in ``after``.

    Every other change takes one subgoal back; the result is 1 only where everything is as in ``after``. Where nothing
    must change it is 1 or 0.

    Args:
        only: compare the cells of this sheet alone.
    """

    def __init__(self, start: Book, after: Book, only: str | None = None) -> None:
        self._only = only
        self._after = self._facts(after)
        self.due = _different(self._facts(start), self._after)
        """What must change; not empty for a generated task."""

    def __call__(self, book: Book, answer: Any) -> float:
        wrong = _different(self._facts(book), self._after)
        if not self.due:
            return float(not wrong)
        return max(0.0, (len(self.due - wrong) - len(wrong - self.due)) / len(self.due))

    def _facts(self, book: Book) -> Mapping[Key, Value]:
        known = facts(book)
        return {key: known[key] for key in known if key[0] == self._only and len(key) == 3} if self._only else known


def facts(book: Book) -> Mapping[Key, Value]:
    """Sheets, values of cells, notes and merged areas; without frozen rows and the open sheet."""
    values: dict[Key, Value] = {}
    for title, grid in book.sheets.items():
        values[title,] = ""
        values |= {
            (title, y, x): value
            for y, row in enumerate(grid.values(), 1)
            for x, value in enumerate(row, 1)
            if value != ""
        }
        values |= {(title, "note", *place): note for place, note in grid.notes.items()}
        values |= {(title, "merged", *area): "" for area in grid.merged}
    return values


def _different(first: Mapping[Key, Value], second: Mapping[Key, Value]) -> set[Key]:
    return {key for key in first.keys() | second.keys() if not _same(first.get(key), second.get(key))}


def _same(first: Value | None, second: Value | None) -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) <= TOLERANCE
    return first == second
