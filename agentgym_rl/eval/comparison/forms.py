"""Tables of a comparison on a terminal, as Markdown and as LaTeX."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from agentgym_rl.eval.comparison.table import Row, Table

NUMBERS = ("episodes", "tokens", "updates", "minutes")
"""Names that are numbers: they stand right, and are not wrapped."""
NAME, LEAST = 12, 4
"""Characters that a name gets beside as many panels as fit, and at least."""
_BORDER = 3
"""Characters between two columns."""


@dataclass(frozen=True, slots=True)
class Screen:
    """A table on a terminal. Names wrap; panels that do not fit beside each other follow below each other."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield self.table.title
        for panels in blocks(self.table, options.max_width):
            yield _grid(self.table, panels)
        yield from self.table.notes
        yield ""


def blocks(table: Table, width: int) -> list[list[int]]:
    """The numbers of the panels that stand beside each other, from the left, in a width of so many characters."""
    names = [_longest([head, *(row.names[place] for row in table.rows)]) for place, head in enumerate(table.heads)]
    fixed = [head in NUMBERS for head in table.heads]
    room = width - 1 - sum(
        (long if is_fixed else min(long, NAME)) + _BORDER for long, is_fixed in zip(names, fixed, strict=True)
    )  # fmt: skip
    groups: list[list[int]] = [[]]
    free = room
    for panel in range(len(table.columns)):
        needed = _wide(table, panel) + _BORDER
        if groups[-1] and needed > free:
            groups.append([])
            free = room
        groups[-1].append(panel)
        free -= needed
    return groups


def _grid(table: Table, panels: Sequence[int]) -> Grid:
    grid = Grid()
    for head in table.heads:
        if head in NUMBERS:
            grid.add_column(head, justify="right", no_wrap=True)
        else:
            grid.add_column(head, overflow="fold", min_width=LEAST)
    for panel in panels:
        grid.add_column("\n".join(table.columns[panel]), justify="right", no_wrap=True, min_width=_wide(table, panel))
    for place, row in enumerate(table.rows):
        if row.bound and place and not table.rows[place - 1].bound:
            grid.add_section()
        cells = (Text(row.cells[panel], "bold" if panel in row.bold else "") for panel in panels)
        grid.add_row(*map(Text, row.names), *cells)
    return grid


def _wide(table: Table, panel: int) -> int:
    return _longest([*table.columns[panel], *(row.cells[panel] for row in table.rows)])


def _longest(texts: Sequence[str]) -> int:
    return max(map(len, texts), default=0)


def markdown(tables: Sequence[Table], remarks: Sequence[str] = ()) -> str:
    """Tables for a page of Markdown, with what else is to be said below them."""
    return "\n\n".join([*map(_markdown, tables), *map(_plain, remarks)]) + "\n"


def _markdown(table: Table) -> str:
    names = [*map(_plain, table.heads)]
    panels = ["<br>".join(map(_plain, column)) for column in table.columns]
    sides = ["--:" if head in NUMBERS else ":--" for head in table.heads] + ["--:"] * len(panels)
    rows = [_cells(row, _plain, "**{}**") for row in table.rows]
    lines = [f"| {' | '.join(cells)} |" for cells in ([*names, *panels], sides, *rows)]
    return "\n".join([f"**{_plain(table.title)}**", "", *lines, *(f"\n{_plain(note)}" for note in table.notes)])


def _plain(text: str) -> str:
    """Markdown that shows a text as it is."""
    return _MARKUP.sub(r"\\\g<0>", text)


_MARKUP = re.compile(r"[\\`*_<>|\[\]]")
"""What Markdown would take for its own."""
_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"\dag{}", "≠": r"$\neq$",
    "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}", **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}  # fmt: skip


def latex(tables: Sequence[Table], remarks: Sequence[str] = ()) -> str:
    """Each table as a ``tabular`` with the rules of the package booktabs; titles and notes are comments."""
    return "\n".join([*map(_latex, tables), *(f"% {_tex(remark)}" for remark in remarks)]) + "\n"


def _latex(table: Table) -> str:
    sides = "".join("r" if head in NUMBERS else "l" for head in table.heads) + "r" * len(table.columns)
    lines = [f"% {table.title}", rf"\begin{{tabular}}{{{sides}}}", r"\toprule"]
    lines += [_tex_row([*table.heads, *map(" ".join, table.columns)], _tex), r"\midrule"]
    for place, row in enumerate(table.rows):
        if row.bound and place and not table.rows[place - 1].bound:
            lines.append(r"\midrule")
        lines.append(_tex_row(_cells(row, _tex, r"\textbf{{{}}}")))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in table.notes), ""])


def _tex_row(cells: Sequence[str], escaped: Callable[[str], str] = str) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"


def _tex(text: str) -> str:
    """A ``[`` is in braces: after the end of a row LaTeX would take it for an option."""
    return "".join(_TEX.get(mark, mark) for mark in text).replace("[", "{[}")


def _cells(row: Row, escaped: Callable[[str], str], bold: str) -> list[str]:
    """The whole row in a language of its own."""
    cells = map(escaped, row.cells)
    return [*map(escaped, row.names), *(bold.format(cell) if n in row.bold else cell for n, cell in enumerate(cells))]
