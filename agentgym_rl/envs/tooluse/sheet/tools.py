"""AgentGym's tools on a workbook, with the names and arguments of its server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_rl.envs.tools import Schema, Tool
from agentgym_rl.envs.tooluse import Function
from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.formula import OPERATORS

_SHEET: Schema = {"type": "string", "description": "the sheet's name"}
_CELL: Schema = {"type": "string", "description": "the cell in A1 notation"}
_START: Schema = {"type": "string", "description": "the first cell of the range (top left) in A1 notation"}
_END: Schema = {"type": "string", "description": "the last cell of the range (bottom right) in A1 notation"}
_OPERATOR: Schema = {"type": "string", "enum": list(OPERATORS), "description": f"one of {', '.join(OPERATORS)}"}
_CELLS: Schema = {"type": "array", "items": {"type": "string"}, "description": "cells in A1 notation"}
_VALUE: Mapping[str, Any] = {"type": ["string", "number", "boolean", "null"]}


def _lines(what: str) -> Schema:
    return {
        "type": "array",
        "items": {"type": "array", "items": _VALUE},
        "description": f"list of lists, each with the values of one {what}; a text that starts with = is a formula",
    }


def _index(description: str) -> Schema:
    return {"type": "integer", "description": description}


def _brief_table(table: Sequence[Sequence[str]]) -> str:
    return "; ".join(" | ".join(row) for row in table) or "empty"


def _done(result: object) -> str:
    return "done"


_TABLE = "all values of the sheet, a list of rows"
_OF_CELLS = {"start_position": _START, "end_position": _END, "position_list": _CELLS, "operator": _OPERATOR}

FUNCTIONS: tuple[Function[Book], ...] = (
    Function(Tool("open_sheet", "Open a sheet by its name.", {"name": _SHEET}), "a message", Book.open_sheet, _done),
    Function(Tool("del_sheet", "Delete a sheet.", {"name": _SHEET}), "a message", Book.del_sheet, _done),
    Function(
        Tool(
            "freeze_data",
            "Freeze the first rows or columns; sorting leaves frozen rows where they are.",
            {
                "dimension": {"type": "string", "enum": ["rows", "columns"], "description": "rows or columns"},
                "num": _index("how many"),
            },
        ),
        "a message",
        Book.freeze_data,
        _done,
    ),
    Function(
        Tool(
            "get_A1_annotation",
            "Get a cell in A1 notation.",
            {"row": _index("the row, from 1"), "col": _index("the column, from 1")},
        ),
        "the cell, such as B3",
        Book.get_A1_annotation,
    ),
    Function(
        Tool(
            "insert_cols",
            "Insert columns before a column.",
            {"values_list": _lines("column"), "col_idx": _index("the column, from 1; 1 if left out")},
            optional=("col_idx",),
        ),
        _TABLE,
        Book.insert_cols,
        _done,
    ),
    Function(
        Tool(
            "insert_rows",
            "Insert rows before a row.",
            {"values_list": _lines("row"), "row_idx": _index("the row, from 1; 1 if left out")},
            optional=("row_idx",),
        ),
        _TABLE,
        Book.insert_rows,
        _done,
    ),
    Function(
        Tool(
            "delete_batch_data",
            "Delete rows or columns.",
            {
                "dimension": {"type": "string", "enum": ["row", "col"], "description": "row or col"},
                "index_list": {"type": "array", "items": {"type": "integer"}, "description": "which, from 1"},
            },
        ),
        _TABLE,
        Book.delete_batch_data,
        _done,
    ),
    Function(
        Tool(
            "update_cell",
            "Set the value of a cell.",
            {"position": _CELL, "value": {**_VALUE, "description": "the value, or a formula that starts with ="}},
        ),
        _TABLE,
        Book.update_cell,
        _done,
    ),
    Function(
        Tool(
            "update_cell_by_formula",
            "Set a cell to a formula of a range or of a list of cells.",
            {**_OF_CELLS, "result_position": {**_CELL, "description": "the cell of the formula in A1 notation"}},
            optional=("start_position", "end_position", "position_list"),
        ),
        _TABLE,
        Book.update_cell_by_formula,
        _done,
    ),
    Function(
        Tool(
            "update_range",
            "Set the values of a range.",
            {"start_position": _START, "end_position": _END, "values_list": _lines("row")},
        ),
        _TABLE,
        Book.update_range,
        _done,
    ),
    Function(
        Tool(
            "sort_sheet_by_col",
            "Sort all rows that are not frozen by a column.",
            {
                "col_num": _index("the column, from 1"),
                "order": {"type": "string", "enum": ["asc", "des"], "description": "asc or des"},
            },
        ),
        _TABLE,
        Book.sort_sheet_by_col,
        _done,
    ),
    Function(
        Tool("merge_cells", "Merge a range into one cell.", {"start_position": _START, "end_position": _END}),
        _TABLE,
        Book.merge_cells,
        _done,
    ),
    Function(
        Tool(
            "update_note",
            "Set the note of a cell.",
            {"position": _CELL, "content": {"type": "string", "description": "the note"}},
        ),
        "a message with the note",
        Book.update_note,
        _done,
    ),
    Function(Tool("get_all_values", "Get all values of the open sheet."), _TABLE, Book.get_all_values, _brief_table),
    Function(
        Tool("get_range_values", "Get the values of a range.", {"start_position": _START, "end_position": _END}),
        "the values, a list of rows",
        Book.get_range_values,
        _brief_table,
    ),
    Function(Tool("get_cell_value", "Get the value of a cell.", {"position": _CELL}), "the value", Book.get_cell_value),
    Function(
        Tool(
            "get_value_by_formula",
            "Calculate a formula of a range or of a list of cells.",
            _OF_CELLS,
            optional=("start_position", "end_position", "position_list"),
        ),
        "the value",
        Book.get_value_by_formula,
    ),
    Function(
        Tool(
            "filter_cells",
            "Find the cells whose text matches a pattern.",
            {
                "query": {"type": "string", "description": "text or regular expression to look for"},
                "in_row": {"type": ["integer", "null"], "description": "look in this row only"},
                "in_column": {"type": ["integer", "null"], "description": "look in this column only"},
            },
            optional=("in_row", "in_column"),
        ),
        "list of cells in A1 notation",
        Book.filter_cells,
        lambda cells: " ".join(cells) or "none",
    ),
    Function(
        Tool("get_note", "Get the note of a cell.", {"position": _CELL}),
        "the note; empty where there is none",
        Book.get_note,
        lambda note: note or "none",
    ),
)
