"""Kinds of tasks that reckon with a table, or take several steps."""

from __future__ import annotations

from random import Random

from agentgym_rl.envs.tooluse import Problem
from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.draft import Desk, ordered, plain
from agentgym_rl.envs.tooluse.sheet.formula import Value, name
from agentgym_rl.envs.tooluse.sheet.grid import Grid
from agentgym_rl.envs.tooluse.sheet.tables import Schema, number


def _numbers(desk: Desk, column: str) -> list[float]:
    return [value for value in desk.table.column(column) if isinstance(value, float)]


def record_formula(rng: Random, schema: Schema) -> Problem[Book] | None:
    """A new column with the sum, average or product of each record."""
    desk = Desk.drawn(rng, schema, most=6)
    if schema.factors is None:
        word, operator = rng.choice((("Sum", "SUM"), ("Average", "AVERAGE")))
        columns, what = list(schema.summed), "sum" if word == "Sum" else "average"
    else:
        word, operator, columns, what = "Value", "PRODUCT", list(schema.factors), "product"
    target = len(desk.table.header) + 1
    desk.read()
    desk.update(name(1, target), word)
    rows: list[list[Value]] = [[*desk.table.header, word]]
    for record, row in enumerate(desk.table.records):
        numbers = [float(row[desk.at(column)]) for column in columns]
        desk.call(
            "update_cell_by_formula",
            position_list=[desk.cell(record, column) for column in columns],
            result_position=name(record + 2, target),
            operator=operator,
        )
        total = sum(numbers)
        rows.append([*row, {"sum": total, "average": total / len(numbers)}.get(what, numbers[0] * numbers[1])])
    listed = ", ".join(f'"{column}"' for column in columns)
    return desk.problem(
        f'add a column "{word}" at the right end of the table with the {what} of {listed} of each row.', rows
    )


def stock(rng: Random, schema: Schema) -> Problem[Book] | None:
    """Numbers lowered by a list, then sorted."""
    column = {"Product": "Quantity", "Book": "Copies", "Seller": "Units", "Task": "Budget"}.get(schema.key)
    if column is None:
        return None
    desk = Desk.drawn(rng, schema)
    before = _numbers(desk, column)
    taken = [rng.randint(0, int(value)) for value in before]
    after = [value - less for value, less in zip(before, taken, strict=True)]
    if len(set(after)) < len(after):
        return None
    desk.read()
    desk.call(
        "update_range",
        start_position=desk.cell(0, column),
        end_position=desk.cell(len(after) - 1, column),
        values_list=[[plain(value)] for value in after],
    )
    desk.sort(desk.at(column), descending=True)
    records = [[*record] for record in desk.table.records]
    for record, value in zip(records, after, strict=True):
        record[desk.at(column)] = value
    listed = [[record[0], less] for record, less in zip(records, taken, strict=True)]
    rng.shuffle(listed)
    goal = (
        f'lower "{column}" by these amounts: {[[desk.key, "Amount"], *listed]}. Then sort the table by "{column}" in '
        "descending order; the header stays the first row."
    )
    return desk.problem(goal, [desk.table.header, *ordered(records, desk.at(column), True)])


def threshold(rng: Random, schema: Schema) -> Problem[Book] | None:
    """Records above or below a number deleted, the others sorted."""
    desk = Desk.drawn(rng, schema, least=5)
    column, other, descending = desk.number(), desk.number(), rng.random() < 0.5
    numbers = _numbers(desk, column)
    limit = rng.choice(sorted(numbers)[1:-1])
    less = rng.random() < 0.5
    gone = [record for record, value in enumerate(numbers) if (value < limit if less else value > limit)]
    if len(numbers) - len(gone) < 2:
        return None
    desk.read()
    desk.delete(gone)
    desk.sort(desk.at(other), descending)
    kept = [row for record, row in enumerate(desk.table.records) if record not in gone]
    goal = (
        f'delete all rows whose "{column}" is {"less" if less else "greater"} than {plain(limit)}. Then sort the table '
        f'by "{other}" in {"descending" if descending else "ascending"} order; the header stays the first row.'
    )
    return desk.problem(goal, [desk.table.header, *ordered(kept, desk.at(other), descending)])


def raise_label(rng: Random, schema: Schema) -> Problem[Book] | None:
    """Numbers of all records with a label raised by a percentage."""
    column = {"Product": "Price", "Book": "Price", "Seller": "Unit Price", "Employee": "Salary"}.get(schema.key)
    if column is None:
        return None
    desk = Desk.drawn(rng, schema)
    label_column, percent = desk.label(), rng.choice((10, 20, 50))
    label = rng.choice(desk.table.column(label_column))
    found = [record for record, value in enumerate(desk.table.column(label_column)) if value == label]
    desk.read()
    rows = desk.table.rows
    for record in found:
        value = round(float(rows[record + 1][desk.at(column)]) * (100 + percent) / 100, 2)
        rows[record + 1][desk.at(column)] = value
        desk.update(desk.cell(record, column), value)
    return desk.problem(
        f'raise "{column}" by {percent} percent in all rows whose "{label_column}" is {label}, rounded to 2 digits '
        "after the point.",
        rows,
    )


def several_notes(rng: Random, schema: Schema) -> Problem[Book] | None:
    """What notes ask for, then sorted."""
    desk = Desk.drawn(rng, schema, least=5)
    column = desk.number()
    records = sorted(rng.sample(range(len(desk.table.records)), rng.randint(2, 3)))
    numbers = _numbers(desk, column)
    desk.read()
    for record in records:
        numbers[record] = number(schema, column, rng)
        desk.grid.notes[record + 2, 1] = f"{column} must be {plain(numbers[record])}"
        desk.call("get_note", position=desk.cell(record, desk.key))
    if len(set(numbers)) < len(numbers) or any(numbers[each] == _numbers(desk, column)[each] for each in records):
        return None
    for record in records:
        desk.update(desk.cell(record, column), numbers[record])
    desk.sort(desk.at(column), descending=True)
    table = [[*record] for record in desk.table.records]
    for row, value in zip(table, numbers, strict=True):
        row[desk.at(column)] = value
    new = ordered(table, desk.at(column), True)
    grid = Grid.of([desk.table.header, *new])
    names = [desk.table.records[record][0] for record in records]
    grid.notes = {
        (2 + place, 1): desk.grid.notes[desk.table.column(desk.key).index(row[0]) + 2, 1]
        for place, row in enumerate(new)
        if row[0] in names
    }
    goal = (
        f"the cells that say {', '.join(map(str, names))} have notes; change their rows as the notes say and keep the "
        f'notes on those cells. Then sort the table by "{column}" in descending order; the header stays the first row.'
    )
    return desk.ending(goal, grid)


def best(rng: Random, schema: Schema) -> Problem[Book] | None:
    """The three first by a column, ranked."""
    desk = Desk.drawn(rng, schema, least=5)
    column = desk.number()
    ranked = ordered(desk.table.records, desk.at(column), True)
    gone = [record for record, row in enumerate(desk.table.records) if row not in ranked[:3]]
    width = len(desk.table.header)
    desk.read()
    desk.delete(gone)
    desk.sort(desk.at(column), descending=True)
    desk.call("insert_cols", values_list=[["Rank", 1, 2, 3]], col_idx=width + 1)
    rows: list[list[Value]] = [[*desk.table.header, "Rank"]]
    rows += [[*row, float(place)] for place, row in enumerate(ranked[:3], start=1)]
    goal = (
        f'keep only the three rows with the highest "{column}" and sort them by it in descending order below the '
        'header. Then add a column "Rank" at the right end of the table with the numbers 1 to 3 from top to bottom.'
    )
    return desk.problem(goal, rows)


def _totals(desk: Desk, label_column: str, column: str) -> dict[Value, float]:
    totals: dict[Value, float] = {}
    for label, value in zip(desk.table.column(label_column), _numbers(desk, column), strict=True):
        totals[label] = totals.get(label, 0.0) + value
    return totals


def best_label(rng: Random, schema: Schema) -> Problem[Book] | None:
    """Records of the label with the highest total deleted, the others sorted."""
    desk = Desk.drawn(rng, schema, least=5)
    label_column, column = desk.label(), desk.number()
    totals = _totals(desk, label_column, column)
    highest, *others = sorted((round(total, 2) for total in totals.values()), reverse=True)
    if not others or highest - others[0] < 0.05:
        return None
    label = max(totals, key=lambda each: totals[each])
    gone = [record for record, value in enumerate(desk.table.column(label_column)) if value == label]
    kept = [row for row in desk.table.records if row[desk.at(label_column)] != label]
    desk.read()
    for each in totals:
        cells = [desk.cell(i, column) for i, value in enumerate(desk.table.column(label_column)) if value == each]
        if len(cells) > 1:
            desk.call("get_value_by_formula", position_list=cells, operator="SUM")
    desk.delete(gone)
    desk.sort(desk.at(column), descending=True)
    goal = (
        f'find the "{label_column}" with the highest total of "{column}" and delete all its rows. Then sort the table '
        f'by "{column}" in descending order; the header stays the first row.'
    )
    return desk.problem(goal, [desk.table.header, *ordered(kept, desk.at(column), True)])


def group_totals(rng: Random, schema: Schema) -> Problem[Book] | None:
    """Sorted by label, with a merged cell for the total of each."""
    desk = Desk.drawn(rng, schema, least=5)
    label_column, column = desk.label(), desk.number()
    totals = _totals(desk, label_column, column)
    records = ordered(desk.table.records, desk.at(label_column), False)
    if not 2 <= len(totals) <= 3 or len(totals) == len(records):
        return None
    target, title = len(desk.table.header) + 1, f"Total {column}"
    desk.read()
    desk.sort(desk.at(label_column), descending=False)
    desk.update(name(1, target), title)
    rows: list[list[Value]] = [[*desk.table.header, title], *([*row, ""] for row in records)]
    merged = []
    for label in sorted(totals, key=str):
        places = [place for place, row in enumerate(records, start=2) if row[desk.at(label_column)] == label]
        desk.call(
            "update_cell_by_formula",
            start_position=name(places[0], desk.at(column) + 1),
            end_position=name(places[-1], desk.at(column) + 1),
            result_position=name(places[0], target),
            operator="SUM",
        )
        if len(places) > 1:
            merged.append((places[0], target, places[-1], target))
            desk.call("merge_cells", start_position=name(places[0], target), end_position=name(places[-1], target))
        rows[places[0] - 1][target - 1] = totals[label]
    grid = Grid.of(rows)
    grid.merged = merged
    goal = (
        f'sort the table by "{label_column}" in ascending order; rows with the same "{label_column}" stay in their '
        f'order and the header stays the first row. Then add a column "{title}" at the right end of the table: for '
        f'each "{label_column}", the total of "{column}" of its rows, in one merged cell next to all of them (no '
        "merging where it has one row)."
    )
    return desk.ending(goal, grid)


def from_other_sheet(rng: Random, schema: Schema) -> Problem[Book] | None:
    """New values that stand on another sheet."""
    desk = Desk.drawn(rng, schema)
    column = desk.number()
    records = rng.sample(range(len(desk.table.records)), rng.randint(2, 4))
    old = _numbers(desk, column)
    values = [number(schema, column, rng) for _ in records]
    if any(old[record] == value for record, value in zip(records, values, strict=True)):
        return None
    news = [[desk.table.records[record][0], value] for record, value in zip(records, values, strict=True)]
    desk.book.sheets["Changes"] = Grid.of([[desk.key, f"New {column}"], *news])
    desk.read("Changes")
    desk.read()
    rows = desk.table.rows
    for record, value in zip(records, values, strict=True):
        desk.update(desk.cell(record, column), value)
        rows[record + 1][desk.at(column)] = value
    return desk.problem(
        f'set "{column}" of each {desk.key.lower()} that the sheet "Changes" lists to its new value.', rows
    )


def below_average(rng: Random, schema: Schema) -> Problem[Book] | None:
    """Records below the average deleted; the average of the others written below."""
    desk = Desk.drawn(rng, schema, least=5)
    column = desk.number()
    numbers = _numbers(desk, column)
    average = sum(numbers) / len(numbers)
    if min(abs(value - average) for value in numbers) < 0.05:
        return None
    last = len(numbers) - 1
    desk.read()
    desk.call(
        "get_value_by_formula",
        start_position=desk.cell(0, column),
        end_position=desk.cell(last, column),
        operator="AVERAGE",
    )
    desk.delete([record for record, value in enumerate(numbers) if value < average])
    kept = [row for row in desk.table.records if float(row[desk.at(column)]) > average]
    desk.call(
        "update_cell_by_formula",
        start_position=desk.cell(0, column),
        end_position=desk.cell(len(kept) - 1, column),
        result_position=desk.cell(len(kept), column),
        operator="COUNT",
    )
    below: list[Value] = [""] * len(desk.table.header)
    below[desk.at(column)] = float(len(kept))
    goal = (
        f'delete all rows whose "{column}" is below the average of that column. Then write how many rows of the table '
        f'are left, the header not counted, into the cell below the last "{column}".'
    )
    return desk.problem(goal, [desk.table.header, *kept, below])
