"""Success of algorithms at equal budgets: each at the least that any of them has spent, by the curves of its runs."""

from collections.abc import Iterator, Mapping, Sequence

from agentgym_rl.eval.comparison.arms import Arm
from agentgym_rl.eval.comparison.learning import Curve, Plot
from agentgym_rl.eval.comparison.table import Row, Table

SPENT = ("episodes", "updates", "tokens", "minutes")
"""What is made equal: axes of curves."""
TITLE = "Success in % at equal budgets: of the last evaluation within what the thriftiest arm spent"
ROUNDING = 1 + 1e-9


def at_equal_budgets(plots: Sequence[Plot]) -> list[Table]:
    """A table for each panel that is evaluated during training and that two algorithms or more have."""
    return [_table(plot) for plot in plots if plot.panel is not None and plot.followed and len(plot.curves) > 1]


def equal(curves: Mapping[str, Curve]) -> tuple[tuple[tuple[str, str], ...], dict[str, tuple[str, ...]]]:
    """Heads of columns, an amount and what it is of; and success in percent by arm, a column each."""
    axes = [axis for axis in SPENT if all(axis in curve.x for curve in curves.values())]
    amounts = {axis: min(curve.x[axis][-1] for curve in curves.values()) for axis in axes}
    heads = tuple((f"at {amount:,.{int(axis == 'minutes')}f}", axis) for axis, amount in amounts.items())
    return heads, {arm: tuple(_cells(curve, amounts)) for arm, curve in curves.items()}


def _table(plot: Plot) -> Table:
    columns, cells = equal({arm.label: curve for arm, curve in plot.curves})
    rows = tuple(Row((label,), of_arm) for label, of_arm in cells.items())
    unknown = [axis for axis in SPENT if axis not in {axis for _, axis in columns}]
    notes = [_coarse(plot.curves)] + [f"Not of all runs known: {', '.join(unknown)}."] * bool(unknown)
    panel = (plot.panel or "").replace("_", " ")
    return Table(f"{TITLE}: {plot.env}, {panel}", ("arm",), columns, rows, tuple(notes))


def _cells(curve: Curve, amounts: Mapping[str, float]) -> Iterator[str]:
    for axis, amount in amounts.items():
        within = [value for value, spent in zip(curve.mean, curve.x[axis], strict=True) if spent <= amount * ROUNDING]
        yield f"{100 * within[-1]:.1f}" if within else "-"


def _coarse(curves: Sequence[tuple[Arm, Curve]]) -> str:
    counts = ", ".join(f"{arm.label} {sum(step > 0 for step in curve.x['steps'])}" for arm, curve in curves)
    return f"Evaluations on the way: {counts}; no interval, because curves choose what is compared."
