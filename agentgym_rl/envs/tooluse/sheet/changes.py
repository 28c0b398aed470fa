"""Kinds of tasks. What each asks for is the goal of its name in ``env.toml``."""

from agentgym_rl.envs.tooluse import Problem
from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.draft import SheetDraft, direction, plain
from agentgym_rl.envs.tooluse.sheet.formula import Value, name
from agentgym_rl.envs.tooluse.sheet.grid import Grid
from agentgym_rl.envs.tooluse.sheet.tables import TABLES, draw

FORMULAS = (("sum", "SUM"), ("average", "AVERAGE"), ("largest value", "MAX"), ("smallest value", "MIN"))


def set_cell(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    record, column = draft.record(), draft.number()
    (value,) = draft.new_numbers([record], column)
    draft.read()
    draft.update(draft.cell(record, column), value)
    return draft.change("set_cell", column=column, name=draft.name_of(record), value=plain(value))


def write_note(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    record, remark = draft.record(), draft.rng.choice(TABLES.remarks)
    draft.read()
    draft.call("update_note", position=draft.cell(record, draft.key), content=remark)
    return draft.change("write_note", remark=remark, name=draft.name_of(record))


def delete_record(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    record = draft.record()
    draft.read()
    draft.delete([record])
    return draft.change("delete_record", name=draft.name_of(record))


def add_record(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    new = draw(draft.type, draft.rng).records[0]
    draft.require(new[0] not in draft.table.column(draft.key))
    draft.read()
    values = [plain(value) for value in new]
    draft.call("insert_rows", values_list=[values], row_idx=len(draft.records) + 2)
    listed = ", ".join(f"{title}: {value}" for title, value in zip(draft.table.header, values, strict=True))
    return draft.change("add_record", listed=listed)


def delete_column(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    column = draft.rng.choice(draft.table.header[1:])
    draft.read()
    draft.call("delete_batch_data", dimension="col", index_list=[draft.place(column)])
    return draft.change("delete_column", column=column)


def add_column(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    title = draft.rng.choice(("Code", "Batch", "Group", "Ticket"))
    codes = [f"{title[0]}{each}" for each in draft.rng.sample(range(100, 1000), len(draft.records))]
    draft.read()
    draft.call("insert_cols", values_list=[[title, *codes]], col_idx=len(draft.table.header) + 1)
    return draft.change("add_column", title=title, listed=", ".join(codes))


def sort(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    column, descending = draft.rng.choice([draft.key, draft.number()]), draft.rng.random() < 0.5
    draft.read()
    draft.sort(column, descending)
    return draft.change("sort", column=column, order=direction(descending))


def one_formula(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    column = draft.number()
    word, operator = draft.rng.choice(FORMULAS)
    last = len(draft.records) - 1
    target = draft.cell(last + 1, column)
    draft.read()
    draft.update_by_formula(operator, draft.cell(0, column), draft.cell(last, column), target)
    return draft.change("one_formula", word=word, column=column, target=target)


def several_cells(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    column = draft.number()
    records = sorted(draft.rng.sample(range(len(draft.records)), draft.rng.randint(2, 3)))
    values = draft.new_numbers(records, column)
    draft.read()
    draft.update_all(records, column, values)
    listed = [[draft.name_of(record), plain(value)] for record, value in zip(records, values, strict=True)]
    draft.rng.shuffle(listed)
    return draft.change("several_cells", table=[[draft.key, column], *listed])


def delete_label(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    column = draft.label()
    label = draft.rng.choice(draft.table.column(column))
    gone = draft.having(column, label)
    draft.require(len(gone) < len(draft.records))
    draft.read()
    draft.delete(gone)
    return draft.change("delete_label", column=column, label=label)


def title_row(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    title = f"{draft.key} List {draft.rng.randint(2015, 2030)}"
    last = draft.cell(-1, draft.table.header[-1])
    draft.read()
    draft.call("insert_rows", values_list=[[title]], row_idx=1)
    draft.call("merge_cells", start_position="A1", end_position=last)
    return draft.change("title_row", title=title, last=last)


def one_note(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    record, column = draft.record(), draft.number()
    (value,) = draft.new_numbers([record], column)
    draft.put_note(record, f"{column} must be {plain(value)}")
    draft.read()
    draft.call("get_note", position=draft.cell(record, draft.key))
    draft.update(draft.cell(record, column), value)
    return draft.change("one_note", name=draft.name_of(record))


def record_formula(draft: SheetDraft) -> Problem[Book]:
    draft.fill(most=6)
    if draft.type.factors is None:
        columns = draft.type.summed
        title, word, operator = draft.rng.choice((("Sum", "sum", "SUM"), ("Average", "average", "AVERAGE")))
    else:
        columns = draft.type.factors
        title, word, operator = "Value", "product", "PRODUCT"
    target = len(draft.table.header) + 1
    draft.read()
    draft.update(name(1, target), title)
    for record in range(len(draft.records)):
        draft.call(
            "update_cell_by_formula",
            position_list=[draft.cell(record, column) for column in columns],
            result_position=name(record + 2, target),
            operator=operator,
        )
    listed = ", ".join(f'"{column}"' for column in columns)
    return draft.change("record_formula", title=title, word=word, listed=listed)


def stock(draft: SheetDraft) -> Problem[Book]:
    column = draft.require(draft.type.lowered)
    draft.fill()
    before = draft.numbers(column)
    taken = [draft.rng.randint(0, int(value)) for value in before]
    after = [value - less for value, less in zip(before, taken, strict=True)]
    draft.require(len(set(after)) == len(after))
    draft.read()
    draft.call(
        "update_range",
        start_position=draft.cell(0, column),
        end_position=draft.cell(len(after) - 1, column),
        values_list=[[plain(value)] for value in after],
    )
    draft.sort(column, descending=True)
    listed = [[record[0], less] for record, less in zip(draft.records, taken, strict=True)]
    draft.rng.shuffle(listed)
    return draft.change("stock", column=column, table=[[draft.key, "Amount"], *listed])


def threshold(draft: SheetDraft) -> Problem[Book]:
    draft.fill(least=5)
    column, other, descending = draft.number(), draft.number(), draft.rng.random() < 0.5
    numbers = draft.numbers(column)
    limit = draft.rng.choice(sorted(numbers)[1:-1])
    less = draft.rng.random() < 0.5
    gone = [record for record, value in enumerate(numbers) if (value < limit if less else value > limit)]
    draft.require(len(numbers) - len(gone) >= 2)
    draft.read()
    draft.delete(gone)
    draft.sort(other, descending)
    side, order = "less" if less else "greater", direction(descending)
    return draft.change("threshold", column=column, side=side, limit=plain(limit), other=other, order=order)


def raise_label(draft: SheetDraft) -> Problem[Book]:
    column = draft.require(draft.type.raised)
    draft.fill()
    label_column, percent = draft.label(), draft.rng.choice((10, 20, 50))
    label = draft.rng.choice(draft.table.column(label_column))
    draft.read()
    for record in draft.having(label_column, label):
        value = round(draft.numbers(column)[record] * (100 + percent) / 100, 2)
        draft.update(draft.cell(record, column), value)
    return draft.change("raise_label", column=column, percent=percent, label_column=label_column, label=label)


def several_notes(draft: SheetDraft) -> Problem[Book]:
    draft.fill(least=5)
    column = draft.number()
    records = sorted(draft.rng.sample(range(len(draft.records)), draft.rng.randint(2, 3)))
    values = draft.new_numbers(records, column)
    after = dict(enumerate(draft.numbers(column))) | dict(zip(records, values, strict=True))
    draft.require(len(set(after.values())) == len(after))
    for record in records:
        draft.put_note(record, f"{column} must be {plain(after[record])}")
    draft.read()
    for record in records:
        draft.call("get_note", position=draft.cell(record, draft.key))
    draft.update_all(records, column, values)
    draft.sort(column, descending=True)
    names = ", ".join(str(draft.name_of(record)) for record in records)
    return draft.change("several_notes", names=names, column=column)


def best(draft: SheetDraft) -> Problem[Book]:
    draft.fill(least=5)
    column = draft.number()
    numbers = draft.numbers(column)
    third = sorted(numbers)[-3]
    draft.read()
    draft.delete([record for record, value in enumerate(numbers) if value < third])
    draft.sort(column, descending=True)
    draft.call("insert_cols", values_list=[["Rank", 1, 2, 3]], col_idx=len(draft.table.header) + 1)
    return draft.change("best", column=column)


def _totals(draft: SheetDraft, label_column: str, column: str) -> dict[Value, float]:
    """The total of a column by label."""
    totals: dict[Value, float] = {}
    for label, value in zip(draft.table.column(label_column), draft.numbers(column), strict=True):
        totals[label] = totals.get(label, 0.0) + value
    return totals


def best_label(draft: SheetDraft) -> Problem[Book]:
    draft.fill(least=5)
    label_column, column = draft.label(), draft.number()
    totals = _totals(draft, label_column, column)
    highest, *others = sorted((round(total, 2) for total in totals.values()), reverse=True)
    draft.require(others and highest - others[0] >= 0.05)
    draft.read()
    for label in totals:
        cells = [draft.cell(record, column) for record in draft.having(label_column, label)]
        if len(cells) > 1:
            draft.call("get_value_by_formula", position_list=cells, operator="SUM")
    draft.delete(draft.having(label_column, max(totals, key=lambda each: totals[each])))
    draft.sort(column, descending=True)
    return draft.change("best_label", label_column=label_column, column=column)


def group_totals(draft: SheetDraft) -> Problem[Book]:
    draft.fill(least=5)
    label_column, column = draft.label(), draft.number()
    totals = _totals(draft, label_column, column)
    labels = sorted(map(str, draft.table.column(label_column)))
    draft.require(2 <= len(totals) <= 3 and len(totals) < len(labels))
    target, title = len(draft.table.header) + 1, f"Total {column}"
    draft.read()
    draft.sort(label_column, descending=False)
    draft.update(name(1, target), title)
    for label in sorted(set(labels)):
        first = labels.index(label)
        last = first + labels.count(label) - 1
        top, bottom = name(first + 2, target), name(last + 2, target)
        draft.update_by_formula("SUM", draft.cell(first, column), draft.cell(last, column), top)
        if last > first:
            draft.call("merge_cells", start_position=top, end_position=bottom)
    return draft.change("group_totals", label_column=label_column, column=column, title=title)


def from_other_sheet(draft: SheetDraft) -> Problem[Book]:
    draft.fill()
    column = draft.number()
    records = draft.rng.sample(range(len(draft.records)), draft.rng.randint(2, 4))
    values = draft.new_numbers(records, column)
    news = [[draft.name_of(record), value] for record, value in zip(records, values, strict=True)]
    draft.book.sheets["Changes"] = Grid.of([[draft.key, f"New {column}"], *news])
    draft.read("Changes")
    draft.read()
    draft.update_all(records, column, values)
    return draft.change("from_other_sheet", column=column, key=draft.key.lower())


def below_average(draft: SheetDraft) -> Problem[Book]:
    draft.fill(least=5)
    column = draft.number()
    numbers = draft.numbers(column)
    average = sum(numbers) / len(numbers)
    draft.require(min(abs(value - average) for value in numbers) >= 0.05)
    gone = [record for record, value in enumerate(numbers) if value < average]
    rest = len(numbers) - len(gone)
    draft.read()
    draft.call(
        "get_value_by_formula",
        start_position=draft.cell(0, column),
        end_position=draft.cell(len(numbers) - 1, column),
        operator="AVERAGE",
    )
    draft.delete(gone)
    draft.update_by_formula("COUNT", draft.cell(0, column), draft.cell(rest - 1, column), draft.cell(rest, column))
    return draft.change("below_average", column=column)
