"""AgentGym's tools on a workbook, with the names and arguments of its server: methods of :class:`Book`."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_rl.envs.tooluse import Function, ToolEnvTexts
from agentgym_rl.envs.tooluse.sheet.book import Book

TEXTS = ToolEnvTexts.beside(__file__)


def _brief_table(table: Sequence[Sequence[str]]) -> str:
    return "; ".join(" | ".join(row) for row in table) or "empty"


FUNCTIONS: dict[str, Function[Book]] = TEXTS.functions(
    {name: method for name, method in vars(Book).items() if name in TEXTS.tools},
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
