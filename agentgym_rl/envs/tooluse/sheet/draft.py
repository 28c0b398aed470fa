"""Drafts of tasks about a workbook: random tables, and the calls that change one of them."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.envs.tooluse import Draft, Problem
from agentgym_rl.envs.tooluse.sheet.book import FUNCTIONS, TEXTS, Book
from agentgym_rl.envs.tooluse.sheet.formula import Value, name
from agentgym_rl.envs.tooluse.sheet.grid import Grid
from agentgym_rl.envs.tooluse.sheet.judge import Judge
from agentgym_rl.envs.tooluse.sheet.tables import TABLES, Table, draw, number
from agentgym_rl.envs.tooluse.tool import FINISH


class SheetDraft(Draft[Book]):
    """A workbook of two or three tables, one of which the task is about, and the plan of calls so far."""

    texts = TEXTS
    functions = FUNCTIONS
    finish = replace(FINISH, optional=("answer",))
    table: Table
    """The table of the task."""
    title: str
    """The name of its sheet."""
    book: Book
    """The workbook at the start."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.type = rng.choice(TABLES.types)

    def fill(self, least: int = 4, most: int = 7) -> None:
        """Draw the sheets Sheet1, Sheet2, ...; the table of the task has ``least`` to ``most`` records."""
        others = self.rng.sample([other for other in TABLES.types if other is not self.type], self.rng.randint(1, 2))
        at = self.rng.randint(0, len(others))
        tables = [draw(other, self.rng) for other in others]
        self.table = draw(self.type, self.rng, least, most)
        tables.insert(at, self.table)
        self.title = f"Sheet{at + 1}"
        self.book = Book({f"Sheet{place}": Grid.of(table.rows) for place, table in enumerate(tables, start=1)})

    def start(self) -> Book:
        return self.book.copy()

    @property
    def key(self) -> str:
        """The title of the column of names, such as ``Product``."""
        return self.type.key

    @property
    def records(self) -> list[list[Value]]:
        return self.table.records

    def name_of(self, record: int) -> Value:
        """The name of a record, counted from 0."""
        return self.records[record][0]

    def record(self) -> int:
        """Any record, counted from 0."""
        return self.rng.randrange(len(self.records))

    def label(self) -> str:
        """A column of labels."""
        return self.rng.choice(list(self.type.labels))

    def number(self) -> str:
        """A column of numbers."""
        return self.rng.choice(list(self.type.numbers))

    def numbers(self, column: str) -> list[float]:
        """The numbers of a column."""
        return [value for value in self.table.column(column) if isinstance(value, float)]

    def new_numbers(self, records: Sequence[int], column: str) -> list[float]:
        """Numbers for cells of a column, each other than the old one."""
        values = [number(self.type, column, self.rng) for _ in records]
        before = self.numbers(column)
        self.require(all(before[record] != value for record, value in zip(records, values, strict=True)))
        return values

    def having(self, column: str, label: Value) -> list[int]:
        """The records with a label, counted from 0."""
        return [record for record, value in enumerate(self.table.column(column)) if value == label]

    def place(self, column: str) -> int:
        """A column's place in the sheet, from 1."""
        return self.table.header.index(column) + 1

    def cell(self, record: int, column: str) -> str:
        """The cell of a record, counted from 0, in A1 notation."""
        return name(record + 2, self.place(column))

    def put_note(self, record: int, text: str) -> None:
        """Put a note on the name of a record in the workbook at the start."""
        self.book.sheets[self.title].notes[record + 2, 1] = text

    def read(self, title: str | None = None) -> None:
        """Open a sheet, by default that of the task, and look at it."""
        self.call("open_sheet", name=title or self.title)
        self.call("get_all_values")

    def update(self, cell: str, value: Value) -> None:
        self.call("update_cell", position=cell, value=plain(value))

    def update_all(self, records: Sequence[int], column: str, values: Sequence[float]) -> None:
        """Write numbers into the cells of a column, one after the other."""
        for record, value in zip(records, values, strict=True):
            self.update(self.cell(record, column), value)

    def update_by_formula(self, operator: str, first: str, last: str, target: str) -> None:
        """Write a formula of a range of cells into another cell."""
        area = {"start_position": first, "end_position": last}
        self.call("update_cell_by_formula", **area, result_position=target, operator=operator)

    def delete(self, records: Sequence[int]) -> None:
        """Delete records, counted from 0."""
        self.call("delete_batch_data", dimension="row", index_list=[record + 2 for record in records])

    def sort(self, column: str, descending: bool) -> None:
        """Sort by a column of the table; the header stays where it is."""
        self.call("freeze_data", dimension="rows", num=1)
        self.call("sort_sheet_by_col", col_num=self.place(column), order="des" if descending else "asc")

    def change(self, template: str, /, **words: Any) -> Problem[Book]:
        """The task that asks for the changes that the calls make, and no others."""
        progress = Judge(self.book, self.state)
        self.require(progress.due)
        goal = f'In "{self.title}", {self.goal(template, **words)}'
        kept = [(title, grid.cells, grid.notes) for title, grid in self.book.sheets.items()]
        return self.problem(goal, progress, context=f"workbook {fingerprint(repr(kept), 8)}")


def plain(value: Value) -> str | float:
    """A value as an agent writes it: whole numbers without a point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def direction(descending: bool) -> str:
    return "descending" if descending else "ascending"
