"""A workbook: named sheets, one of them open; AgentGym's tools, with the names and arguments of its server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym_rl.envs.texts import read_texts
from agentgym_rl.envs.tooluse import Refused, ToolEnvTexts
from agentgym_rl.envs.tooluse.sheet.formula import COLUMNS, ROWS, FormulaError, Place, Value, evaluate, name, position
from agentgym_rl.envs.tooluse.sheet.grid import MAX_CELL_CHARACTERS, Area, Grid, shown, value_of

Entered = str | float | None
"""A value as a tool takes it."""
Table = list[list[str]]
"""The texts of the cells of a sheet, row by row."""


@dataclass
class Book:
    """The state of a session. Its methods are the tools."""

    sheets: dict[str, Grid] = field(default_factory=dict)
    current: str | None = None

    def copy(self) -> Book:
        return Book({title: grid.copy() for title, grid in self.sheets.items()}, self.current)

    @property
    def grid(self) -> Grid:
        """The open sheet. Raises Refused: none is open."""
        if self.current is None:
            raise Refused("Please open a sheet before operating it")
        return self.sheets[self.current]

    def open_sheet(self, name: str) -> str:
        self._sheet(name)
        self.current = name
        return f"You have opened {name}"

    def del_sheet(self, name: str) -> str:
        self._sheet(name)
        if len(self.sheets) == 1:
            raise Refused("the last sheet cannot be deleted")
        del self.sheets[name]
        if self.current == name:
            self.current = None
        return f"You have deleted {name}"

    def freeze_data(self, dimension: str, num: int) -> str:
        if not 0 <= num <= (ROWS if dimension == "rows" else COLUMNS):
            raise Refused(f"num {num} is outside the sheet")
        self.grid.frozen[0 if dimension == "rows" else 1] = int(num)
        return f"You have frozen {num} {dimension}"

    def get_A1_annotation(self, row: int, col: int) -> str:
        return name(*_inside(int(row), int(col)))

    def insert_cols(self, values_list: Sequence[Sequence[Entered]], col_idx: int = 1) -> Table:
        self.grid.insert(1, int(col_idx), _values(values_list))
        return self.get_all_values()

    def insert_rows(self, values_list: Sequence[Sequence[Entered]], row_idx: int = 1) -> Table:
        self.grid.insert(0, int(row_idx), _values(values_list))
        return self.get_all_values()

    def delete_batch_data(self, dimension: str, index_list: Sequence[int]) -> Table:
        self.grid.delete(0 if dimension == "row" else 1, map(int, index_list))
        return self.get_all_values()

    def update_cell(self, position: str, value: Entered) -> Table:
        self.grid.write([(_place(position), value_of(value))])
        return self.get_all_values()

    def update_cell_by_formula(self, operator: str, result_position: str, **cells: Any) -> Table:
        self.grid.write([(_place(result_position), _formula(operator, **cells))])
        return self.get_all_values()

    def update_range(self, start_position: str, end_position: str, values_list: Sequence[Sequence[Entered]]) -> Table:
        top, left, bottom, right = area = _area(start_position, end_position)
        grid = self.grid
        if area == (1, 1, grid.height, grid.width):
            raise Refused("the whole sheet cannot be updated at once")
        if len(values_list) > bottom - top + 1 or any(len(row) > right - left + 1 for row in values_list):
            raise Refused(f"values_list has more rows or columns than {start_position}:{end_position}")
        grid.write(
            ((top + i, left + k), value_of(value))
            for i, row in enumerate(values_list)
            for k, value in enumerate(row)
            if value is not None
        )
        return self.get_all_values()

    def sort_sheet_by_col(self, col_num: int, order: str) -> Table:
        self.grid.sort(int(col_num), descending=order == "des")
        return self.get_all_values()

    def merge_cells(self, start_position: str, end_position: str) -> Table:
        self.grid.merge(_area(start_position, end_position))
        return self.get_all_values()

    def update_note(self, position: str, content: str) -> str:
        place = _place(position)
        if len(content) > MAX_CELL_CHARACTERS:
            raise Refused(f"a note has at most {MAX_CELL_CHARACTERS} characters")
        self.grid.notes.pop(place, None)
        if content:
            self.grid.notes[place] = content
        return f"The note of {position} is now: {content}"

    def get_all_values(self) -> Table:
        return [[shown(value) for value in row] for row in self.grid.values()]

    def get_range_values(self, start_position: str, end_position: str) -> Table:
        return [[shown(value) for value in row] for row in self.grid.values(_area(start_position, end_position))]

    def get_cell_value(self, position: str) -> str:
        return shown(self.grid.value(*_place(position)))

    def get_value_by_formula(self, operator: str, **cells: Any) -> str:
        try:
            return shown(evaluate(_formula(operator, **cells), self.grid.value))
        except FormulaError as error:
            raise Refused(str(error)) from error

    def filter_cells(self, query: str, in_row: int | None = None, in_column: int | None = None) -> list[str]:
        pattern, grid = _pattern(query), self.grid
        return [
            name(y, x)
            for y in range(1, grid.height + 1)
            for x in range(1, grid.width + 1)
            if in_row in (None, y) and in_column in (None, x) and pattern.search(shown(grid.value(y, x))[:SEARCHED])
        ]

    def get_note(self, position: str) -> str:
        return self.grid.notes.get(_place(position), "")

    def _sheet(self, title: str) -> Grid:
        if title not in self.sheets:
            raise Refused(f"there is no sheet {title[:40]!r}; there are {', '.join(self.sheets)}")
        return self.sheets[title]


SEARCHED = 100
"""Characters of a cell that are searched."""

_REPEAT = re.compile(r"[*+?{]")


def _pattern(query: str) -> re.Pattern[str]:
    """A search pattern that is fast on any text: few repetitions, none of a group, no look-around."""
    bare = re.sub(r"\\.|\[[^\]]*\]", "x", query)
    repeats, groups = len(_REPEAT.findall(bare)), bare.count("(")
    if len(query) > SEARCHED or repeats > 2 or groups > 2 or re.search(r"\)[*+?{]|\(\?|\\[1-9]", query):
        raise Refused("the query is too intricate; search for plain text or a simple pattern")
    try:
        return re.compile(query)
    except (re.error, OverflowError) as error:
        raise Refused(f"the query {query[:40]!r} is no regular expression: {error}") from error


def _place(cell: str) -> Place:
    place = position(cell)
    if place is None:
        raise Refused(f"{cell[:40]!r} is no cell in A1 notation; get_A1_annotation(row, col) gives it")
    return _inside(*place)


def _inside(row: int, column: int) -> Place:
    if not (1 <= row <= ROWS and 1 <= column <= COLUMNS):
        raise Refused(f"row {row}, column {column} is outside the sheet of {ROWS} rows and {COLUMNS} columns")
    return row, column


def _area(start: str, end: str) -> Area:
    (top, left), (bottom, right) = _place(start), _place(end)
    if bottom < top or right < left:
        raise Refused(f"{end} is not below and to the right of {start}")
    return top, left, bottom, right


def _formula(
    operator: str,
    start_position: str | None = None,
    end_position: str | None = None,
    position_list: Sequence[str] | None = None,
) -> str:
    if position_list is not None:
        cells = [name(*_place(cell)) for cell in position_list]
        return f"={operator}({','.join(cells)})"
    if start_position is None or end_position is None:
        raise Refused("give either position_list, or start_position and end_position")
    _area(start_position, end_position)
    return f"={operator}({start_position}:{end_position})"


def _values(values_list: Sequence[Sequence[Entered]]) -> list[list[Value]]:
    return [[value_of(value) for value in line] for line in values_list]


TEXTS = read_texts(__file__, ToolEnvTexts)


def _brief_table(table: Sequence[Sequence[str]]) -> str:
    return "; ".join(" | ".join(row) for row in table) or "empty"


FUNCTIONS = TEXTS.functions(
    TEXTS.methods(Book),
    {
        **dict.fromkeys(TEXTS.tools, lambda result: "done"),
        "get_A1_annotation": str,
        "get_all_values": _brief_table,
        "get_range_values": _brief_table,
        "get_cell_value": str,
        "get_value_by_formula": str,
        "filter_cells": lambda cells: " ".join(cells) or "none",
        "get_note": lambda note: note or "none",
    },
)
