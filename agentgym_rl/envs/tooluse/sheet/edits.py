"""Kinds of tasks that change single cells, records or columns, or sort."""

from __future__ import annotations

from agentgym_rl.envs.tooluse import Problem
from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.draft import SheetDraft, direction, plain
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
