"""One sheet: cells, notes, merged areas, frozen rows, and the operations on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from agentgym_rl.envs.tooluse import Refused
from agentgym_rl.envs.tooluse.sheet.formula import (
    BROKEN,
    COLUMNS,
    ROWS,
    FormulaError,
    Place,
    Value,
    evaluate,
    moved,
    order,
)

MAX_CELL_CHARACTERS = 200
"""Characters of a cell or a note."""
MAX_NUMBER = 1e15
CHAIN = 10
"""Longest chain of formulas that refer to each other and have no known value yet."""

_NUMBER = re.compile(r"[-+]?(\d{1,15}(\.\d*)?|\.\d+)")

Area = tuple[int, int, int, int]
"""Top, left, bottom and right of a rectangle of cells."""


def value_of(text: str | float | None) -> Value:
    """An entered value as the sheet stores it: a text in the form of a number becomes one; None is empty.

    Raises:
        Refused: it is too long, or too large.
    """
    if text is None:
        return ""
    if isinstance(text, bool):
        return str(text).upper()
    if isinstance(text, str):
        if len(text) > MAX_CELL_CHARACTERS:
            raise Refused(f"a cell holds at most {MAX_CELL_CHARACTERS} characters")
        return float(text) if _NUMBER.fullmatch(text.strip()) else text
    if not abs(text) <= MAX_NUMBER:
        raise Refused(f"a number is at most {MAX_NUMBER:g}")
    return float(text)


def shown(value: Value) -> str:
    """A value as text; numbers to 10 digits, whole ones to 15."""
    if isinstance(value, str):
        return value
    return f"{value + 0.0:.15g}" if value.is_integer() else f"{value:.10g}"  # no sign before 0


@dataclass
class Grid:
    """A sheet. Keys are row and column; empty cells have none. A text that starts with ``=`` is a formula."""

    cells: dict[Place, Value] = field(default_factory=dict)
    notes: dict[Place, str] = field(default_factory=dict)
    merged: list[Area] = field(default_factory=list)
    frozen: list[int] = field(default_factory=lambda: [0, 0])
    """Rows and columns that stay in place."""
    _known: dict[Place, Value] = field(default_factory=dict, compare=False)
    """Values of formulas, until the next change."""

    @classmethod
    def of(cls, table: Sequence[Sequence[Value]]) -> Grid:
        """A sheet of rows of values."""
        grid = cls()
        grid.cells = {(y, x): value for y, row in enumerate(table, 1) for x, value in enumerate(row, 1) if value != ""}
        return grid

    def copy(self) -> Grid:
        return Grid(dict(self.cells), dict(self.notes), list(self.merged), list(self.frozen))

    @property
    def height(self) -> int:
        """The last row in use."""
        return max((*(y for y, _ in self.cells), *(area[2] for area in self.merged)), default=0)

    @property
    def width(self) -> int:
        """The last column in use."""
        return max((*(x for _, x in self.cells), *(area[3] for area in self.merged)), default=0)

    def value(self, row: int, column: int) -> Value:
        """The value of a cell. All cells of a merged area have the same."""
        try:
            return self._read((row, column))
        except FormulaError:
            self._known[self._home((row, column))] = BROKEN
            return BROKEN

    def values(self, area: Area | None = None) -> list[list[Value]]:
        """The values of all cells, or of those of an area, row by row."""
        top, left, bottom, right = area or (1, 1, self.height, self.width)
        return [[self.value(y, x) for x in range(left, right + 1)] for y in range(top, bottom + 1)]

    def write(self, entries: Iterable[tuple[Place, Value]]) -> None:
        """Enter values and formulas, all or none.

        Raises:
            Refused: a formula has no value, or a cell is outside the sheet.
        """
        after = dict(self.cells)
        for place, value in entries:
            if not (1 <= place[0] <= ROWS and 1 <= place[1] <= COLUMNS):
                raise Refused(f"a sheet has {ROWS} rows and {COLUMNS} columns")
            after[self._home(place)] = value
        before, self.cells = self.cells, {place: value for place, value in after.items() if value != ""}
        self._known.clear()
        try:
            for place, value in self.cells.items():
                if before.get(place) != value:
                    self._read(place)
        except FormulaError as error:
            self.cells = before
            self._known.clear()
            raise Refused(str(error)) from error

    def insert(self, axis: int, at: int, lines: Sequence[Sequence[Value]]) -> None:
        """Insert rows (axis 0) or columns (axis 1) before the one at ``at``.

        Raises:
            Refused: the sheet has no such place, or no room.
        """
        size, most, what = (self.height, ROWS, "row") if axis == 0 else (self.width, COLUMNS, "column")
        if not 1 <= at <= size + 1:
            raise Refused(f"{what} index {at} is not between 1 and {size + 1}")
        if size + len(lines) > most:
            raise Refused(f"a sheet has at most {most} {what}s")
        entries = [
            ((at + i, k) if axis == 0 else (k, at + i), value)
            for i, line in enumerate(lines)
            for k, value in enumerate(line, 1)
        ]
        trial = self.copy()
        trial._remap(lambda *place: _shifted(place, axis, len(lines)) if place[axis] >= at else place)
        trial.write(entries)
        self.cells, self.notes, self.merged = trial.cells, trial.notes, trial.merged
        self._known.clear()

    def delete(self, axis: int, gone: Iterable[int]) -> None:
        """Delete rows (axis 0) or columns (axis 1). Raises Refused: there is no such one, or nothing would be left."""
        size, most, what = (self.height, ROWS, "row") if axis == 0 else (self.width, COLUMNS, "column")
        lines = sorted(set(gone))
        if bad := [line for line in lines if not 1 <= line <= most]:
            raise Refused(f"there is no {what} {bad[0]}: a sheet has {most}")
        if sum(line <= size for line in lines) == size:
            raise Refused("the whole sheet cannot be deleted at once")
        self._remap(
            lambda *place: (
                None if place[axis] in lines else _shifted(place, axis, -sum(line < place[axis] for line in lines))
            )
        )

    def sort(self, column: int, descending: bool) -> None:
        """Sort the rows that are not frozen: numbers, then text, empty cells last; ties keep their order.

        Raises:
            Refused: there is no such column, or merged cells are in the way.
        """
        if not 1 <= column <= self.width:
            raise Refused(f"there is no column {column}: the sheet has {self.width}")
        first = self.frozen[0] + 1
        if any(area[2] >= first for area in self.merged):
            raise Refused("rows with merged cells cannot be sorted")
        keys = {row: self.value(row, column) for row in range(first, self.height + 1)}
        filled = sorted((row for row in keys if keys[row] != ""), key=lambda row: order(keys[row]), reverse=descending)
        empty = [row for row in keys if keys[row] == ""]
        new = {row: first + place for place, row in enumerate([*filled, *empty])}
        cells = {}
        for (row, x), value in self.cells.items():
            by = new.get(row, row) - row
            cells[row + by, x] = _formula(value, _down(by))
        self.cells = cells
        self.notes = {(new.get(row, row), x): note for (row, x), note in self.notes.items()}
        self._known.clear()

    def merge(self, area: Area) -> None:
        """Merge an area into one cell with the first value in it.

        Raises:
            Refused: it is a single cell, or overlaps another merged area.
        """
        top, left, bottom, right = area
        if (top, left) == (bottom, right):
            raise Refused("a merged area has at least two cells")
        if any(
            top <= other[2] and other[0] <= bottom and left <= other[3] and other[1] <= right for other in self.merged
        ):
            raise Refused("the area overlaps cells that are merged already")
        places = [(y, x) for y in range(top, bottom + 1) for x in range(left, right + 1)]
        text = next((self.cells[place] for place in places if place in self.cells), "")
        for place in places:
            self.cells.pop(place, None)
        if text != "":
            self.cells[top, left] = text
        self.merged = sorted([*self.merged, area])
        self._known.clear()

    def _home(self, place: Place) -> Place:
        """The cell that holds the value: the first of a merged area."""
        for top, left, bottom, right in self.merged:
            if top <= place[0] <= bottom and left <= place[1] <= right:
                return top, left
        return place

    def _read(self, place: Place, path: tuple[Place, ...] = ()) -> Value:
        """The value of a cell that the formulas in the cells of ``path`` lead to.

        Raises:
            FormulaError: the cell's formula, or one that it builds on, has no value.
        """
        place = self._home(place)
        text = self.cells.get(place, "")
        if not _is_formula(text):
            return text
        if place in path:
            raise FormulaError("the formula refers to its own cell")
        if len(path) > CHAIN:
            raise FormulaError(f"more than {CHAIN} formulas build on each other")
        if place not in self._known:
            self._known[place] = evaluate(text, lambda *other: self._read(other, (*path, place)))
        return self._known[place]

    def _remap(self, move: Move) -> None:
        """Move cells, notes, merged areas and the references of formulas."""

        self.cells = {there: _formula(value, move) for place, value in self.cells.items() if (there := move(*place))}
        self.notes = {there: note for place, note in self.notes.items() if (there := move(*place))}
        areas = []
        for top, left, bottom, right in self.merged:
            places = [move(y, x) for y in range(top, bottom + 1) for x in range(left, right + 1)]
            remaining = [place for place in places if place is not None]
            if len(remaining) > 1:
                areas.append((*min(remaining), *max(remaining)))
        self.merged = areas
        self._known.clear()


Move = Callable[[int, int], Place | None]
"""The new place of a cell; None deletes it."""


def _is_formula(value: Value) -> TypeGuard[str]:
    return isinstance(value, str) and value.startswith("=")


def _formula(value: Value, move: Move) -> Value:
    """The content of a cell, with the references of a formula moved."""
    return moved(value, move) if _is_formula(value) else value


def _down(rows: int) -> Move:
    return lambda row, column: (row + rows, column)


def _shifted(place: Place, axis: int, by: int) -> Place:
    return (place[0] + by, place[1]) if axis == 0 else (place[0], place[1] + by)
