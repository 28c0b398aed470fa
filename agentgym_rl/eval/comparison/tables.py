"""The tables of a comparison, whatever they are written as (:mod:`.forms`): in percent and percentage points."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from agentgym_rl.eval.comparison.arms import Arm, unnamed
from agentgym_rl.eval.comparison.budgets import budget_of
from agentgym_rl.eval.comparison.compare import Comparison, Estimate
from agentgym_rl.eval.comparison.equal import at_equal_budgets
from agentgym_rl.eval.comparison.learning import plots
from agentgym_rl.eval.comparison.table import Row, Table

BOUNDS = (
    "random chooses among actions that are listed, or solve other tasks, where a model has to write one; oracle knows "
    "the solution"
)
ONE_SEED = "One seed says nothing about other seeds: its differences have no interval, and its curves no band."
ONE_RUN = "Each arm is one run: intervals are over the tasks of a panel, and say nothing about other seeds."
MOST = 3
"""Names, or pairs of names, that are listed; of more, the number is said."""


def tables(comparison: Comparison) -> list[Table]:
    """Success, differences, what they cost, and success at equal budgets."""
    all_tables = [_success(comparison)]
    if comparison.differences:
        all_tables.append(_differences(comparison))
    if comparison.has_gains:
        all_tables.append(_rates(comparison))
    return all_tables + at_equal_budgets(plots(comparison))


def remarks(comparison: Comparison) -> list[str]:
    """What the tables cannot show."""
    pairs, budget = comparison.strangers, budget_of(comparison)
    sentences = [str(budget)] if budget and budget.departing else []
    without = names_text([run.name for run in comparison.runs if not run.has_metrics])
    unseen = names_text(unnamed(comparison.arms)) if comparison.by == "short" else ""
    sentences += [f"arms also differ in {unseen}: --arms keys names every key"] if unseen else []
    sentences += [f"no curves, nor success at equal budgets, of {without}: no metrics.jsonl"] if without else []
    sentences += [f"{run} and {other} share no panel: nothing compares them" for run, other in pairs[:MOST]]
    return sentences + ([f"nor do {len(pairs) - MOST} other pairs of runs share one"] if len(pairs) > MOST else [])


def training(comparison: Comparison, begun: Sequence[Path], damaged: Sequence[str]) -> list[str]:
    """Which runs still train, and which are left out.

    Args:
        begun: see :func:`agentgym_rl.eval.comparison.runs.read_all`, as for ``damaged``.
    """
    lines = [f"not finished, in {run.stage}: {run.folder}" for run in comparison.runs if run.stage is not None]
    lines += [f"left out, nothing is learnt yet: {folder}" for folder in begun]
    return [*lines, *(f"left out, damaged: {fault}" for fault in damaged)]


def _success(comparison: Comparison) -> Table:
    rows = [
        Row(
            (arm.label, *_runs(comparison, arm), seeds_text(arm.seeds)),
            tuple(cell_text(cell, arm.seeds) for cell in cells),
        )
        for arm, cells in zip(comparison.arms, comparison.success, strict=True)
    ]
    heads = ("arm", *_runs_head(comparison), "seeds")
    rows += [
        Row((policy, *[""] * (len(heads) - 1)), tuple("-" if top is None else f"{100 * top:.1f}" for top in bounds),
            bound=True)
        for policy, bounds in comparison.bounds.items()
    ]  # fmt: skip
    title = f"Success in %, {comparison.decoding}: mean over seeds with 95% interval over seeds and tasks"
    notes = ["† one seed: the interval over the tasks of its panel"] if comparison.has_single_seeds else []
    return _table(comparison, title, heads, rows, notes + ([BOUNDS] if comparison.bounds else []))


def _differences(comparison: Comparison) -> Table:
    arms = {arm.label: arm for arm in comparison.arms}
    rows = [
        Row(
            (difference.arm, difference.baseline, *_runs(comparison, arms[difference.arm])),
            tuple(difference_text(cell, arms[difference.arm].seeds) for cell in difference.cells),
            frozenset(number for number, cell in enumerate(difference.cells) if cell is not None and cell.clear),
        )
        for difference in comparison.differences
    ]
    if comparison.by == "run":
        title, notes = "Difference in points, with 95% interval over tasks (Newcombe)", [ONE_RUN]
    else:
        title = "Difference in points on the same seeds, with 95% interval over seeds and tasks; Holm's p, bold < 0.05"
        notes = [ONE_SEED] if any(len(arm.seeds) < 2 for arm in comparison.arms) else []
    return _table(comparison, title, ("arm", "minus", *_runs_head(comparison)), rows, notes)


def _rates(comparison: Comparison) -> Table:
    rows, budget = [], budget_of(comparison)
    unit = budget.unit if budget else "episodes"
    for arm, cost in zip(comparison.arms, comparison.costs, strict=True):
        if cost.has_gains:
            rates = zip(cost.per_1000_episodes, cost.per_minute, strict=True)
            cells = tuple(f"{rate_text(episodes)} | {rate_text(minutes)}" for episodes, minutes in rates)
            amount, mark = getattr(cost, unit), budget.mark(arm.label) if budget else ""
            spent = (("-" if amount is None else f"{amount:,.0f}") + mark, f"{cost.minutes:.1f}")
            rows.append(Row((arm.label, *_runs(comparison, arm), *spent), cells))
    title = "What a stage spends, and the points it gains for it: per 1,000 episodes | per minute"
    notes = [f"{budget}."] if budget and not budget.departing else []
    return _table(comparison, title, ("arm", *_runs_head(comparison), unit, "minutes"), rows, notes)


def _table(
    comparison: Comparison, title: str, heads: tuple[str, ...], rows: Sequence[Row], notes: Sequence[str]
) -> Table:
    columns = tuple((column.env, column.panel.replace("_", " ")) for column in comparison.columns)
    return Table(title, heads, columns, tuple(rows), tuple(notes))


def _runs_head(comparison: Comparison) -> tuple[str, ...]:
    """No column of runs where they are the arms."""
    return () if comparison.by == "run" else ("runs",)


def _runs(comparison: Comparison, arm: Arm) -> tuple[str, ...]:
    return () if comparison.by == "run" else (names_text(arm.names),)


def names_text(names: Sequence[str]) -> str:
    """``a, b, c and 2 more``."""
    return ", ".join(names[:MOST]) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")


def cell_text(cell: Estimate | None, seeds: Sequence[int]) -> str:
    """``41.1 [38, 44]``; a dagger marks an interval over tasks, and it says so when not all of an arm's seeds have a
    value."""
    if cell is None:
        return "-"
    shown = f"{100 * cell.mean:.1f}"
    if cell.interval is not None:
        low, high = cell.interval
        shown += f" [{100 * low:.0f}, {100 * high:.0f}]"
    return shown + ("†" if cell.over == "tasks" else "") + of_seeds(cell, seeds)


def of_seeds(cell: Estimate, seeds: Sequence[int]) -> str:
    """``2 of 3 seeds``, with a space before it; empty where all seeds of an arm have a value."""
    measured = len(cell.by_seed)
    return f" {measured} of {len(seeds)} seeds" if measured < len(seeds) else ""


def difference_text(cell: Estimate | None, seeds: Sequence[int]) -> str:
    """``+12.3 [+4, +20] p 0.25``; it says so when not all of an arm's seeds have a value."""
    if cell is None:
        return "-"
    shown = points(cell.mean, 1)
    if cell.interval is not None:
        low, high = cell.interval
        shown += f" [{points(low, 0)}, {points(high, 0)}]"
    return shown + (f" p {cell.p:.2g}" if cell.p is not None else "") + of_seeds(cell, seeds)


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
