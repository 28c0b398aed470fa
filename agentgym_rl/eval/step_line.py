"""What a run says of a unit: one line for terminals and pipes."""

from collections.abc import Sequence
from statistics import fmean

from agentgym_rl.eval.units import UNITS, Row, by_env, by_stage, left_s, number, stage_of

BEFORE = 5
"""Units before the present one whose mean its trend is a difference to."""
FIGURES = {
    "groups with a gradient": ("rollout/gradient_groups", "{:.0%}"),
    "entropy": ("actor/entropy", "{:.3g}"),
    "KL": ("actor/ppo_kl", "{:.2g}"),
    "loss": ("supervised/loss", "{:.3g}"),
}
"""Metrics by what the line calls them."""


def step_line(rows: Sequence[Row]) -> str:
    """The unit of the last row: its number, success and reward by environment with their trend, what learning and
    speed depend on, and the time left at the pace of the stage's units in ``rows``.

    Args:
        rows: of ``metrics.jsonl``, the last of them a unit.
    """
    row, stage = rows[-1], stage_of(rows[-1])
    assert stage is not None and UNITS in row, "the last row is a unit"
    units = by_stage(rows)[stage]
    parts = [f"{stage} {number(row, stage)} of {row[UNITS]:g}"]
    parts += [_environment(env, units) for env in by_env(row, "success")]
    parts += [f"{what} {form.format(row[name])}" for what, (name, form) in FIGURES.items() if name in row]
    parts += _amounts(row, rows[-2] if len(rows) > 1 else {})
    if seconds := left_s(units, stage):
        parts.append(f"{duration(seconds)} left")
    return "  ".join(parts)


def _environment(env: str, units: Sequence[Row]) -> str:
    success, reward = ([row[key] for row in units if key in row] for key in (f"env/{env}/success", f"env/{env}/reward"))
    return (
        f"{env}: success {100 * success[-1]:.1f}%{_trend([100 * share for share in success], '.1f')}, "
        f"reward {reward[-1]:.3g}{_trend(reward, '.3g')}"
    )


def _trend(values: Sequence[float], form: str) -> str:
    """The difference of the last value to the mean of those before it, in brackets; nothing for the first."""
    if len(values) < 2:
        return ""
    return f" ({values[-1] - fmean(values[-1 - BEFORE : -1]):+{form}})"


def _amounts(row: Row, before: Row) -> list[str]:
    """Length of an episode and tokens a second, from what was spent since the row before."""
    spent = ("run/episodes", "run/tokens", "run/wall_s")
    episodes, tokens, seconds = (row[name] - before.get(name, 0) for name in spent)
    if not episodes or seconds <= 0:
        return []
    return [f"length {tokens / episodes:,.0f} tokens", f"{tokens / seconds:,.0f} tokens/s"]


def duration(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
