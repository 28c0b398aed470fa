"""A workbook drawn at random, and what a kind of task makes of one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from agentgym_rl.envs.tooluse import Call, Problem
from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.formula import Value, name
from agentgym_rl.envs.tooluse.sheet.grid import Grid
from agentgym_rl.envs.tooluse.sheet.judge import Judge
from agentgym_rl.envs.tooluse.sheet.tables import SCHEMAS, Schema, Table, draw


@dataclass
class Desk:
    """A workbook of two or three tables, the one the task is about, and the calls of a plan in the order made."""

    rng: Random
    book: Book
    title: str
    table: Table
    calls: list[Call] = field(default_factory=list)

    @classmethod
    def drawn(cls, rng: Random, schema: Schema, least: int = 4, most: int = 7) -> Desk:
        """Tables on sheets with the names Sheet1, Sheet2, ...; the other sheets hold other kinds of tables."""
        others = rng.sample([other for other in SCHEMAS if other is not schema], rng.randint(1, 2))
        at = rng.randint(0, len(others))
        tables = [draw(other, rng) for other in others]
        tables.insert(at, draw(schema, rng, least, most))
        book = Book({f"Sheet{place}": Grid.of(table.rows) for place, table in enumerate(tables, start=1)})
        return cls(rng, book, f"Sheet{at + 1}", tables[at])

    @property
    def grid(self) -> Grid:
        """The sheet the task is about."""
        return self.book.sheets[self.title]

    @property
    def key(self) -> str:
        """What a record is, such as ``Product``."""
        return self.table.schema.key

    def label(self) -> str:
        """A column of labels."""
        return self.rng.choice(list(self.table.schema.labels))

    def number(self) -> str:
        """A column of numbers."""
        return self.rng.choice(list(self.table.schema.numbers))

    def at(self, title: str) -> int:
        """A column's place in the records, from 0."""
        return self.table.header.index(title)

    def cell(self, record: int, title: str) -> str:
        """The cell of a record, counted from 0, in A1 notation."""
        return name(record + 2, self.at(title) + 1)

    def call(self, tool: str, **arguments: Any) -> None:
        self.calls.append((tool, arguments))

    def read(self, title: str | None = None) -> None:
        """Open a sheet, by default that of the task, and look at it."""
        self.call("open_sheet", name=title or self.title)
        self.call("get_all_values")

    def update(self, cell: str, value: Value) -> None:
        self.call("update_cell", position=cell, value=plain(value))

    def delete(self, records: Sequence[int]) -> None:
        """Delete records, counted from 0."""
        self.call("delete_batch_data", dimension="row", index_list=[record + 2 for record in records])

    def sort(self, place: int, descending: bool) -> None:
        """Sort by the column in a place counted from 0, the header staying where it is."""
        self.call("freeze_data", dimension="rows", num=1)
        self.call("sort_sheet_by_col", col_num=place + 1, order="des" if descending else "asc")

    def problem(self, goal: str, rows: Sequence[Sequence[Value]]) -> Problem[Book] | None:
        """The task that ends with these rows on its sheet, and nothing else changed; None if it ends as it starts."""
        grid = self.grid.copy()
        grid.cells = Grid.of(rows).cells
        return self.ending(goal, grid)

    def ending(self, goal: str, grid: Grid) -> Problem[Book] | None:
        """The task that ends with this as its sheet, and nothing else changed; None if it ends as it starts."""
        if grid == self.grid:
            return None
        start, after = self.book, self.book.copy()
        after.sheets[self.title] = grid
        return Problem(
            goal=f'In "{self.title}", {goal}',
            start=start.copy,
            progress=Judge(start, after),
            plan=(*self.calls, ("finish", {"answer": "done"})),
            context=f"workbook {fingerprint(start)}",
        )


Kind = Callable[[Random, Schema], Problem[Book] | None]
"""Draws a task on a table of a schema, or gives None where the draw does not suit it."""


def template(kind: Kind) -> Callable[[Random], Problem[Book] | None]:
    """The kind of task on any table."""
    return lambda rng: kind(rng, rng.choice(SCHEMAS))


def fingerprint(book: Book) -> str:
    """First 8 hex digits of the SHA-256 of all cells and notes."""
    kept = [(title, grid.cells, grid.notes) for title, grid in book.sheets.items()]
    return hashlib.sha256(repr(kept).encode()).hexdigest()[:8]


def plain(value: Value) -> str | float:
    """A value as an agent writes it: whole numbers without a point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def ordered(records: Sequence[list[Value]], place: int, descending: bool) -> list[list[Value]]:
    """Records sorted by one of their values, all text or all numbers; ties as they were."""
    return sorted(records, key=lambda record: record[place], reverse=descending)
