"""A comparison as rows of numbers, and as CSV."""

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from agentgym_rl.data.files import write_text
from agentgym_rl.eval.comparison.budgets import budget_of
from agentgym_rl.eval.comparison.compare import Column, Comparison, Estimate

FIELDS = (
    "kind", "arm", "runs", "baseline", "stage", "seeds", "env", "panel", "decoding", "mean", "low", "high",
    "interval_over", "p", "by_seed", "episodes", "tokens", "updates", "budget",
    "minutes", "per_1000_episodes", "per_minute",
)  # fmt: skip


def rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """One row per arm (or difference, random policy, oracle) and column; success in percent, differences
    and rates in points."""
    budget = budget_of(comparison)
    for arm, row, cost in zip(comparison.arms, comparison.success, comparison.costs, strict=True):
        for number, (column, cell) in enumerate(zip(comparison.columns, row, strict=True)):
            rates = {
                "per_1000_episodes": _percent(cost.per_1000_episodes[number]),
                "per_minute": _percent(cost.per_minute[number]),
            }
            spent = {
                "episodes": cost.episodes, "tokens": cost.tokens, "updates": cost.updates,
                "budget": budget.standing(arm.label) if budget else None, "minutes": cost.minutes,
            }  # fmt: skip
            yield (
                {"kind": "success", "arm": arm.label, "runs": " ".join(run.name for run in arm.runs),
                 "stage": arm.stage, "decoding": comparison.decoding}
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
            yield {"kind": "reference", "arm": policy, **place, "mean": _percent(bound)}


def write_csv(comparison: Comparison, path: Path) -> Path:
    """Write the :func:`rows` of a comparison."""
    out = StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(comparison))
    write_text(path, out.getvalue())
    return path


def _cells(column: Column, cell: Estimate | None) -> dict[str, object]:
    place: dict[str, object] = {"env": column.env, "panel": column.panel}
    if cell is None:
        return place
    low, high = cell.interval or (None, None)
    return place | {
        "seeds": " ".join(map(str, cell.by_seed)), "mean": _percent(cell.mean), "low": _percent(low),
        "high": _percent(high), "p": cell.p, "interval_over": cell.over,
        "by_seed": " ".join(f"{100 * value:.6g}" for value in cell.by_seed.values()),
    }  # fmt: skip


def _percent(share: float | None) -> float | None:
    """To ten digits, so that 0.07 is 7."""
    return None if share is None else float(f"{100 * share:.10g}")
