"""Kinds of tasks that change single cells, records or columns, or sort."""

from __future__ import annotations

from random import Random

from agentgym_rl.envs.tooluse import Problem
from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.draft import Desk, ordered, plain
from agentgym_rl.envs.tooluse.sheet.formula import Value
from agentgym_rl.envs.tooluse.sheet.tables import Schema, draw, number

REMARKS = ("check again", "ask the manager", "confirmed by phone", "see the report", "new since May", "to be replaced")


def _other_number(desk: Desk, record: int, column: str) -> float | None:
    """Another number for a cell, or None where the draw gives the same."""
    value = number(desk.table.schema, column, desk.rng)
    return None if value == desk.table.column(column)[record] else value


def set_cell(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    record, column = rng.randrange(len(desk.table.records)), desk.number()
    if (value := _other_number(desk, record, column)) is None:
        return None
    desk.read()
    desk.update(desk.cell(record, column), value)
    rows = desk.table.rows
    goal = f'set "{column}" of {rows[record + 1][0]} to {plain(value)}.'
    rows[record + 1][desk.at(column)] = value
    return desk.problem(goal, rows)


def write_note(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    record, remark = rng.randrange(len(desk.table.records)), rng.choice(REMARKS)
    desk.read()
    desk.call("update_note", position=desk.cell(record, desk.key), content=remark)
    grid = desk.grid.copy()
    grid.notes[record + 2, 1] = remark
    return desk.ending(f'put the note "{remark}" on the cell that says {desk.table.records[record][0]}.', grid)


def delete_record(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    record = rng.randrange(len(desk.table.records))
    desk.read()
    desk.delete([record])
    rows = desk.table.rows
    gone = rows.pop(record + 1)
    return desk.problem(f"delete the row of {gone[0]}.", rows)


def add_record(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    new = draw(schema, rng).records[0]
    if new[0] in desk.table.column(desk.key):
        return None
    desk.read()
    rows = [*desk.table.rows, new]
    desk.call("insert_rows", values_list=[[plain(value) for value in new]], row_idx=len(rows))
    listed = ", ".join(f"{title}: {plain(value)}" for title, value in zip(desk.table.header, new, strict=True))
    return desk.problem(f"add a row at the end of the table with {listed}.", rows)


def delete_column(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    column = rng.choice(desk.table.header[1:])
    at = desk.at(column)
    desk.read()
    desk.call("delete_batch_data", dimension="col", index_list=[at + 1])
    return desk.problem(f'delete the column "{column}".', [[*row[:at], *row[at + 1 :]] for row in desk.table.rows])


def add_column(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    title = rng.choice(("Code", "Batch", "Group", "Ticket"))
    codes = [f"{title[0]}{each}" for each in rng.sample(range(100, 1000), len(desk.table.records))]
    desk.read()
    desk.call("insert_cols", values_list=[[title, *codes]], col_idx=len(desk.table.header) + 1)
    rows = [[*row, value] for row, value in zip(desk.table.rows, [title, *codes], strict=True)]
    listed = ", ".join(codes)
    return desk.problem(
        f'add a column "{title}" at the right end of the table with, from top to bottom, {listed}.', rows
    )


def sort(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    column, descending = rng.choice([desk.key, desk.number()]), rng.random() < 0.5
    desk.read()
    desk.sort(desk.at(column), descending)
    goal = f'sort the table by "{column}" in {_order(descending)} order; the header stays the first row.'
    return desk.problem(goal, [desk.table.header, *ordered(desk.table.records, desk.at(column), descending)])


def one_formula(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    column = desk.number()
    numbers = [value for value in desk.table.column(column) if isinstance(value, float)]
    word, operator, result = rng.choice(
        (
            ("sum", "SUM", sum(numbers)),
            ("average", "AVERAGE", sum(numbers) / len(numbers)),
            ("largest value", "MAX", max(numbers)),
            ("smallest value", "MIN", min(numbers)),
        )
    )
    last = len(numbers) - 1
    target = desk.cell(last + 1, column)
    desk.read()
    desk.call(
        "update_cell_by_formula",
        start_position=desk.cell(0, column),
        end_position=desk.cell(last, column),
        result_position=target,
        operator=operator,
    )
    below: list[Value] = [""] * len(desk.table.header)
    below[desk.at(column)] = result
    return desk.problem(
        f'put the {word} of "{column}" into {target}, the cell below that column.', [*desk.table.rows, below]
    )


def several_cells(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    column = desk.number()
    records = sorted(rng.sample(range(len(desk.table.records)), rng.randint(2, 3)))
    values = [_other_number(desk, record, column) for record in records]
    rows = desk.table.rows
    desk.read()
    listed = []
    for record, value in zip(records, values, strict=True):
        if value is None:
            return None
        desk.update(desk.cell(record, column), value)
        rows[record + 1][desk.at(column)] = value
        listed.append([rows[record + 1][0], plain(value)])
    rng.shuffle(listed)
    return desk.problem(f"update the table with this: {[[desk.key, column], *listed]}.", rows)


def delete_label(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    column = desk.label()
    label = rng.choice(desk.table.column(column))
    gone = [record for record, value in enumerate(desk.table.column(column)) if value == label]
    if len(gone) == len(desk.table.records):
        return None
    desk.read()
    desk.delete(gone)
    rows = [row for row in desk.table.rows if row[desk.at(column)] != label]
    return desk.problem(f'delete all rows whose "{column}" is {label}.', rows)


def title_row(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    title = f"{desk.key} List {rng.randint(2015, 2030)}"
    width = len(desk.table.header)
    last = desk.cell(-1, desk.table.header[-1])
    desk.read()
    desk.call("insert_rows", values_list=[[title]], row_idx=1)
    desk.call("merge_cells", start_position="A1", end_position=last)
    grid = desk.grid.of([[title], *desk.table.rows])
    grid.merged = [(1, 1, 1, width)]
    return desk.ending(
        f'insert a row above the header, write "{title}" into A1, and merge the cells A1 to {last}.', grid
    )


def one_note(rng: Random, schema: Schema) -> Problem[Book] | None:
    desk = Desk.drawn(rng, schema)
    record, column = rng.randrange(len(desk.table.records)), desk.number()
    if (value := _other_number(desk, record, column)) is None:
        return None
    name = desk.table.records[record][0]
    desk.grid.notes[record + 2, 1] = f"{column} must be {plain(value)}"
    desk.read()
    desk.call("get_note", position=desk.cell(record, desk.key))
    desk.update(desk.cell(record, column), value)
    rows = desk.table.rows
    rows[record + 1][desk.at(column)] = value
    return desk.problem(f"the cell that says {name} has a note; change the row of {name} as the note says.", rows)


def _order(descending: bool) -> str:
    return "descending" if descending else "ascending"
