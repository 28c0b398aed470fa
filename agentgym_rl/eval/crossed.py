"""Intervals and p values of a mean over seeds and tasks, where all seeds face the same tasks.

Training seeds and the tasks of a panel are both drawn from many; a seed's success on a task is drawn, too, at
temperature 1. The variance of the mean of ``S`` seeds on ``T`` tasks is that of a crossed design with two random
factors::

    seeds / S  +  tasks / T  +  rest / (S * T)

The spread of the seeds' means estimates the first and the third term. Seeds share their tasks, so that it says nothing
of the second, which :func:`task_variance` adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, variance
from typing import Any

from agentgym_rl.eval.intervals import Interval, stats

Z = 1.959964
"""97.5% of a standard normal variable lie below."""


@dataclass(frozen=True, slots=True)
class TaskVariance:
    """Variance of a mean over seeds and tasks that does not come from how seeds differ."""

    shared: float = 0.0
    """Of the tasks, which all seeds face."""
    chance: float = 0.0
    """Of what is left, a seed's luck on a task, as far as it is known."""


SEEDS_ALONE = TaskVariance()


def crossed(by_seed: Sequence[float], tasks: TaskVariance) -> Interval:
    """95% interval of the mean of at least two seeds on other seeds and other tasks.

    The widest of three. One is of the whole variance, with the degrees of freedom of Hillis (2007, Statistics in
    Medicine 26:596) for random readers and random cases, after Satterthwaite (1946): those of the seeds, more where
    tasks have the larger part. Student's over seeds alone mends it where few seeds happen to be alike; half of what
    tasks and chance alone make, where they are so alike that nothing would be left. Of simulated intervals 93 to 97%
    hold the mean, of two seeds and twenty tasks up to 98% (``tests/eval/test_crossed.py``).

    Args:
        by_seed: mean over tasks of each seed.
        tasks: :func:`task_variance`, of several panels the sums with squared weights; without any it is Student's
            interval over seeds.

    Raises:
        ValueError: there are fewer than two seeds, so that their spread is unknown.
    """
    centre = fmean(by_seed)
    margin = max(spread * float(stats().t.ppf(0.975, df)) for spread, df in _spreads(by_seed, tasks))
    return centre - margin, centre + margin


def crossed_p(by_seed: Sequence[float], tasks: TaskVariance) -> float:
    """Two-sided p value of a mean of 0: below 0.05 where :func:`crossed` excludes 0. Raises ValueError as it does."""
    centre = abs(fmean(by_seed))
    if not centre:
        return 1.0
    return max(
        2 * float(stats().t.sf(centre / spread if spread else inf, df)) for spread, df in _spreads(by_seed, tasks)
    )


def task_variance(table: Sequence[Sequence[float | None]]) -> TaskVariance:
    """What tasks, the same for all seeds, and chance add to the variance of the mean of a panel.

    Both are estimated by analysis of variance, ``(MS(tasks) - MS(rest)) / (S * T)``, not below 0, and
    ``MS(rest) / (S * T)``; where all values are equal, see :func:`alike`. A task that some seed has no value of is left
    out.

    Args:
        table: success, or a difference of success, by seed and task; at least two of each.
    """
    values = [each for each in zip(*table, strict=True) if None not in each]
    by_task, by_seed = [fmean(each) for each in values], [fmean(each) for each in zip(*values, strict=True)]
    seeds, tasks, mean = len(by_seed), len(values), fmean(by_seed)
    if len({value for each in values for value in each}) == 1:
        return TaskVariance(alike(tasks))
    rest = squared(*values) - seeds * squared(by_task) - tasks * squared(by_seed) + seeds * tasks * mean**2
    of_rest = max(0.0, rest) / ((seeds - 1) * (tasks - 1))
    excess = max(0.0, seeds * variance(by_task) - of_rest)
    return TaskVariance(excess / (seeds * tasks), of_rest / (seeds * tasks))


def squared(*rows: Sequence[Any]) -> float:
    """Sum of the squares of all numbers."""
    total: float = sum(value * value for row in rows for value in row)
    return total


def alike(tasks: int) -> float:
    """Variance of the mean of tasks that all had the same outcome: an interval of it ends where Wilson's does, which
    says how many of all tasks may have another.
    """
    return (Z / (tasks + Z**2)) ** 2


def most_shared(success: float, tasks: int) -> float:
    """The most that tasks can add, where their outcomes are not known: all of the variance, without chance."""
    return success * (1 - success) / tasks if 0 < success < 1 else alike(tasks)


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected for being several (Holm 1979), in their order: those below 0.05 hold together at 5%."""
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    corrected, most = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(order):
        most = max(most, min(1.0, (len(order) - rank) * p_values[number]))
        corrected[number] = most
    return corrected


def _spreads(by_seed: Sequence[float], tasks: TaskVariance) -> list[tuple[float, float]]:
    """Standard error and degrees of freedom: of seeds and tasks, of seeds alone, and half of that without seeds."""
    count = len(by_seed)
    if count < 2:
        raise ValueError(f"an interval over {count} values is unknown; it needs at least two")
    of_seeds = variance(by_seed) / count
    total, df = of_seeds + tasks.shared, count - 1.0
    return [
        (total**0.5, df * (total / of_seeds) ** 2 if of_seeds else inf),
        (of_seeds**0.5, df),
        ((tasks.shared + tasks.chance) ** 0.5 / 2, inf),
    ]
