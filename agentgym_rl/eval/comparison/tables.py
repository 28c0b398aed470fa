"""A comparison in the terminal and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from agentgym_rl.data.files import write_text
from agentgym_rl.eval.comparison.compare import Column, Comparison, Estimate

FIELDS = (
    "kind", "arm", "baseline", "stage", "seeds", "env", "panel", "decoding", "mean", "low", "high", "interval_over",
    "p", "by_seed", "episodes", "minutes", "per_1000_episodes", "per_minute",
)  # fmt: skip
BOUNDS = "random chooses among the actions that are listed, where a model has to write one; oracle knows the solution"
ONE_SEED = "One seed says nothing about other seeds: its differences have no interval, and its curves no band."


def tables(comparison: Comparison) -> list[Group]:
    """Success, differences and what they cost, in percent and percentage points."""
    found = [_success(comparison)]
    if comparison.differences:
        found.append(_differences(comparison))
    if comparison.has_gains:
        found.append(_rates(comparison))
    return found


def _success(comparison: Comparison) -> Group:
    table = _table(("arm", "seeds"), comparison.columns)
    for arm, row in zip(comparison.arms, comparison.success, strict=True):
        table.add_row(Text(arm.label), Text(seeds_text(arm.seeds)), *(Text(cell_text(cell, arm.seeds)) for cell in row))
    table.add_section()
    for policy, bounds in comparison.bounds.items():
        table.add_row(policy, "", *("-" if bound is None else f"{100 * bound:.1f}" for bound in bounds))
    title = f"Success in %, {comparison.decoding}: mean over seeds with 95% interval (Student)"
    dagger = ["† one seed: the interval over the tasks of its panel"] if comparison.has_single_seeds else []
    explained = [BOUNDS] if comparison.bounds else []
    return Group(title, table, *dagger, *explained, "")


def _differences(comparison: Comparison) -> Group:
    table = _table(("arm", "minus"), comparison.columns)
    for difference in comparison.differences:
        cells = [Text(difference_text(cell), "bold" if cell and cell.clear else "") for cell in difference.cells]
        table.add_row(Text(difference.arm), Text(difference.baseline), *cells)
    title = "Difference in points on the same seeds, with paired 95% interval (Student; bold without 0) and sign-flip p"
    alone = [ONE_SEED] if any(len(arm.seeds) < 2 for arm in comparison.arms) else []
    return Group(title, table, *alone, "")


def _rates(comparison: Comparison) -> Group:
    table = _table(("arm", "episodes", "minutes"), comparison.columns)
    for arm, cost in zip(comparison.arms, comparison.costs, strict=True):
        if cost.has_gains:
            rates = zip(cost.per_1000_episodes, cost.per_minute, strict=True)
            cells = [Text(f"{rate_text(episodes)} | {rate_text(minutes)}") for episodes, minutes in rates]
            table.add_row(Text(arm.label), f"{cost.episodes:,.0f}", f"{cost.minutes:.1f}", *cells)
    return Group("What a stage spends, and the points it gains for it: per 1,000 episodes | per minute", table, "")


def rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """One row per arm (or difference, random policy, oracle) and column; success and differences as shares."""
    for arm, row, cost in zip(comparison.arms, comparison.success, comparison.costs, strict=True):
        for number, (column, cell) in enumerate(zip(comparison.columns, row, strict=True)):
            rates = {"per_1000_episodes": cost.per_1000_episodes[number], "per_minute": cost.per_minute[number]}
            spent = {"episodes": cost.episodes, "minutes": cost.minutes}
            yield (
                {"kind": "success", "arm": arm.label, "stage": arm.stage, "decoding": comparison.decoding}
                | _cells(column, cell) | spent | rates
            )  # fmt: skip
    stages = {arm.label: arm.stage for arm in comparison.arms}
    for difference in comparison.differences:
        for column, cell in zip(comparison.columns, difference.cells, strict=True):
            yield (
                {"kind": "difference", "arm": difference.arm, "baseline": difference.baseline,
                 "stage": stages[difference.arm], "decoding": comparison.decoding} | _cells(column, cell)
            )  # fmt: skip
    for policy, bounds in comparison.bounds.items():
        for column, bound in zip(comparison.columns, bounds, strict=True):
            place = {"env": column.env, "panel": column.panel, "decoding": comparison.decoding}
            yield {"kind": "reference", "arm": policy, **place, "mean": bound}


def write_csv(comparison: Comparison, path: Path) -> Path:
    """Write the :func:`rows` of a comparison."""
    out = StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(comparison))
    write_text(path, out.getvalue())
    return path


def cell_text(cell: Estimate | None, seeds: Sequence[int]) -> str:
    """``41.1 [38, 44]``; a dagger marks an interval over tasks, and it says so when not all of an arm's seeds have a
    value."""
    if cell is None:
        return "-"
    shown = f"{100 * cell.mean:.1f}"
    if cell.interval is not None:
        low, high = cell.interval
        shown += f" [{100 * low:.0f}, {100 * high:.0f}]"
    known = len(cell.by_seed)
    return (
        shown
        + ("†" if cell.over == "tasks" else "")
        + (f" {known} of {len(seeds)} seeds" if known < len(seeds) else "")
    )


def difference_text(cell: Estimate | None) -> str:
    """``+12.3 [+4, +20] p 0.25``."""
    if cell is None:
        return "-"
    shown = points(cell.mean, 1)
    if cell.interval is not None:
        low, high = cell.interval
        shown += f" [{points(low, 0)}, {points(high, 0)}]"
    return shown + (f" p {cell.p:.2g}" if cell.p is not None else "")


def rate_text(rate: float | None) -> str:
    """Points gained."""
    return "-" if rate is None else points(rate, 2)


def points(share: float, digits: int) -> str:
    """Percentage points with their sign; what rounds to zero is ``+0``."""
    return f"{round(100 * share, digits) + 0.0:+.{digits}f}"


def seeds_text(seeds: Iterable[int]) -> str:
    """``0, 1, 2``, in short where there are many."""
    all_of = list(seeds)
    return ", ".join(map(str, all_of)) if len(all_of) <= 5 else f"{all_of[0]}..{all_of[-1]} ({len(all_of)})"


def _table(heads: tuple[str, ...], columns: Iterable[Column]) -> Table:
    table = Table()
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number == 0 or head in ("minus", "seeds") else "right")
    for column in columns:
        table.add_column(f"{column.env}\n{column.panel.replace('_', ' ')}", justify="right", no_wrap=True)
    return table


def _cells(column: Column, cell: Estimate | None) -> dict[str, object]:
    place: dict[str, object] = {"env": column.env, "panel": column.panel}
    if cell is None:
        return place
    low, high = cell.interval or (None, None)
    return place | {
        "seeds": " ".join(map(str, cell.by_seed)), "mean": cell.mean, "low": low, "high": high, "p": cell.p,
        "interval_over": cell.over, "by_seed": " ".join(f"{value:.6g}" for value in cell.by_seed.values()),
    }  # fmt: skip
