"""Intervals and p values by drawing anew: the bootstrap over tasks, and random signs of paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import comb
from random import Random
from statistics import fmean

from agentgym_rl.eval.intervals import wilson

DRAWS = 1000
"""Resamples of a bootstrap."""
FLIPS = 10_000
"""Random choices of signs where there are too many to try all."""
EXACT = 13
"""Most differences other than 0 whose signs are tried in every combination (2^13 sums)."""


def bootstrap(values: Sequence[float], seed: str, draws: int = DRAWS) -> tuple[float, float]:
    """Percentile bootstrap 95% interval of a mean (Efron 1979): tasks are drawn with replacement.

    Args:
        values: one a task.
        seed: equal seeds draw the same tasks.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("a bootstrap needs at least one value")
    rng = Random(seed)
    means = sorted(fmean(rng.choices(values, k=len(values))) for _ in range(draws))
    cut = int(0.025 * draws)
    return means[cut], means[-1 - cut]


def share(values: Sequence[float], seed: str) -> tuple[float, float]:
    """95% interval of a mean of tasks' shares, each in [0, 1].

    Wilson's where every share is 0 or 1, which is one sample a task; else the bootstrap over tasks. The bootstrap of
    equal values has no width, so these have Wilson's as well, of the nearest count. (0, 1) without values.
    """
    if not values:
        return 0.0, 1.0
    if all(value in (0, 1) for value in values) or len(set(values)) == 1:
        return wilson(round(sum(values)), len(values))
    return bootstrap(values, seed)


def mcnemar(better: int, worse: int) -> float:
    """Two-sided exact p value of McNemar's test (1947): of the pairs that differ, is either direction likelier?

    Args:
        better: pairs in which only the second succeeds.
        worse: pairs in which only the first does.
    """
    n = better + worse
    tail = sum(comb(n, k) for k in range(min(better, worse) + 1))
    return float(min(1.0, 2 * tail / 2**n))


def sign_flip(differences: Sequence[float], seed: str) -> float:
    """Two-sided p value of a mean of paired differences by random signs (Fisher 1935).

    Exact for at most ``EXACT`` differences other than 0; beyond, the share of ``FLIPS`` seeded choices of signs, the
    observed one among them (Phipson and Smyth 2010), so that it is never 0.
    """
    moved = [value for value in differences if value]
    observed = abs(sum(moved)) - 1e-9 * sum(map(abs, moved))  # sums of the same numbers in another order
    if len(moved) <= EXACT:
        signs = product((1, -1), repeat=len(moved))
        sums = [abs(sum(sign * value for sign, value in zip(one, moved, strict=True))) for one in signs]
        return sum(total >= observed for total in sums) / len(sums)
    rng = Random(seed)
    hits = sum(
        abs(sum(value if rng.random() < 0.5 else -value for value in moved)) >= observed for _ in range(FLIPS - 1)
    )
    return (1 + hits) / FLIPS
