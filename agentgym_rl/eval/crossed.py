"""Intervals and p values of a mean over seeds and tasks, where all seeds face the same tasks.

Training seeds and the tasks of a panel are both drawn from many; a seed's success on a task is drawn, too, at
temperature 1. The variance of the mean of ``S`` seeds on ``T`` tasks is that of a crossed design with two random
factors::

    seeds / S  +  tasks / T  +  rest / (S * T)

The spread of the seeds' means estimates the first and the third term. Seeds share their tasks, so that it says nothing
of the second, which :func:`shared_variance` adds.
"""

from collections.abc import Sequence
from math import inf
from statistics import fmean, variance
from typing import Any

from agentgym_rl.eval.intervals import Interval, stats


def crossed(by_seed: Sequence[float], shared: float) -> Interval:
    """95% interval of the mean of at least two seeds on other seeds and other tasks.

    The wider of two. One is of the whole variance, with the degrees of freedom of Hillis (2007, Statistics in Medicine
    26:596) for random readers and random cases, after Satterthwaite (1946): those of the seeds, more where tasks have
    the larger part. The other is Student's over seeds alone, which mends the first where few seeds happen to be alike.
    Of simulated intervals 93 to 97% hold the mean (``tests/eval/test_crossed.py``).

    Args:
        by_seed: mean over tasks of each seed.
        shared: variance of the mean that tasks add: :func:`shared_variance`, of several panels the sum with squared
            weights; 0 gives Student's interval over seeds.

    Raises:
        ValueError: there are fewer than two seeds, so that their spread is unknown.
    """
    centre = fmean(by_seed)
    margin = max(spread * float(stats().t.ppf(0.975, df)) for spread, df in _spreads(by_seed, shared))
    return centre - margin, centre + margin


def crossed_p(by_seed: Sequence[float], shared: float) -> float:
    """Two-sided p value of a mean of 0: below 0.05 where :func:`crossed` excludes 0. Raises ValueError as it does."""
    centre = abs(fmean(by_seed))
    if not centre:
        return 1.0
    return max(
        2 * float(stats().t.sf(centre / spread if spread else inf, df)) for spread, df in _spreads(by_seed, shared)
    )


def shared_variance(table: Sequence[Sequence[float | None]]) -> float:
    """Variance that tasks, the same for all seeds, add to the mean of a panel.

    It is estimated by analysis of variance, ``(MS(tasks) - MS(rest)) / (S * T)``, and not below 0. A task that
    some seed has no value of is left out.

    Args:
        table: success, or a difference of success, by seed and task; at least two of each.
    """
    values = [each for each in zip(*table, strict=True) if None not in each]
    by_task, by_seed = [fmean(each) for each in values], [fmean(each) for each in zip(*values, strict=True)]
    seeds, tasks, mean = len(by_seed), len(values), fmean(by_seed)
    rest = squared(*values) - seeds * squared(by_task) - tasks * squared(by_seed) + seeds * tasks * mean**2
    excess: float = seeds * variance(by_task) - rest / ((seeds - 1) * (tasks - 1))
    return max(0.0, excess) / (seeds * tasks)


def squared(*rows: Sequence[Any]) -> float:
    """Sum of the squares of all numbers."""
    total: float = sum(value * value for row in rows for value in row)
    return total


def most_shared(success: float, tasks: int) -> float:
    """The most that :func:`shared_variance` can be, where outcomes of tasks are not known: without chance."""
    return max(0.0, success * (1 - success)) / tasks


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected for being several (Holm 1979), in their order: those below 0.05 hold together at 5%."""
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    corrected, most = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(order):
        most = max(most, min(1.0, (len(order) - rank) * p_values[number]))
        corrected[number] = most
    return corrected


def _spreads(by_seed: Sequence[float], shared: float) -> list[tuple[float, float]]:
    """Standard error and degrees of freedom: of seeds and tasks, and of seeds alone."""
    count = len(by_seed)
    if count < 2:
        raise ValueError(f"an interval over {count} values is unknown; it needs at least two")
    of_seeds = variance(by_seed) / count
    total, df = of_seeds + shared, count - 1.0
    return [(total**0.5, df * (total / of_seeds) ** 2 if of_seeds else inf), (of_seeds**0.5, df)]
