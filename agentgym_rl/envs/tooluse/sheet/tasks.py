"""The tasks of ours: which kinds there are, by the number of calls they take."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_rl.envs.tooluse import Drawn
from agentgym_rl.envs.tooluse.sheet import edits, reports
from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.draft import Kind, template

OFFICIAL = range(20)
"""AgentGym's task indices."""

KINDS: Mapping[range, tuple[Kind, ...]] = {
    range(4, 5): (
        edits.set_cell,
        edits.write_note,
        edits.delete_record,
        edits.add_record,
        edits.one_formula,
        edits.delete_column,
        edits.add_column,
        edits.delete_label,
    ),
    range(5, 7): (
        edits.sort,
        edits.several_cells,
        edits.title_row,
        edits.one_note,
        reports.stock,
        reports.threshold,
        reports.below_average,
        reports.raise_label,
    ),
    range(7, 9): (
        reports.best,
        reports.best_label,
        reports.from_other_sheet,
    ),
    range(9, 13): (
        reports.record_formula,
        reports.several_notes,
        reports.group_totals,
    ),
}
"""Kinds of tasks by the number of calls, ``finish`` among them, that their plans take."""

TASKS: Drawn[Book] = Drawn(
    name="sheet",
    levels={calls: [template(kind) for kind in kinds] for calls, kinds in KINDS.items()},
    official=OFFICIAL,
    missing="give the options official and workbook, paths of AgentGym's agentenv-tool/Toolusage/data/sheet.jsonl and "
    "'agentenv-tool/Toolusage/toolusage/utils/sheet/Test Sheet-For Copy.xlsx'",
)
