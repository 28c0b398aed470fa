"""Intervals and p values for success rates: of episodes, and of seeds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import cos, pi, sin, sqrt, tan
from operator import mul
from statistics import mean, stdev

Z95 = 1.959963984540054
"""97.5% quantile of the normal distribution."""

MAX_FLIPS = 16
"""Most differences whose signs are flipped in every combination (2^16 sums)."""


def wilson(successes: int, n: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a proportion (Wilson 1927); (0, 1) when ``n`` is 0.

    Raises:
        ValueError: ``successes`` is not between 0 and ``n``.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} is impossible")
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    margin = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low = 0.0 if successes == 0 else centre - margin  # exactly, whatever the rounding
    high = 1.0 if successes == n else centre + margin
    return low, high


def student_quantile(df: int, level: float = 0.95) -> float:
    """``t`` with ``P(|T| <= t) = level`` for Student's distribution with ``df`` degrees of freedom.

    Inverts the finite series of the distribution for whole ``df`` (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).

    Raises:
        ValueError: ``df`` is below 1, or ``level`` not between 0 and 1.
    """
    if df < 1 or not 0 < level < 1:
        raise ValueError(f"Student's distribution has no quantile for df={df}, level={level}")
    low, high = 0.0, pi / 2  # of the angle atan(t / sqrt(df))
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_mass(middle, df) < level else (low, middle)
    return sqrt(df) * tan(low)


def _student_mass(angle: float, df: int) -> float:
    """``P(|T| <= sqrt(df) tan(angle))``."""
    odd = df % 2
    term = total = cos(angle) if odd else 1.0
    for number in range(2 + odd, df - 1, 2):
        term *= cos(angle) ** 2 * (number - 1) / number
        total += term
    if not odd:
        return sin(angle) * total
    return 2 / pi * (angle + (sin(angle) * total if df > 1 else 0.0))


def student(values: Sequence[float]) -> tuple[float, float]:
    """Student's 95% interval of the mean of at least two values.

    Raises:
        ValueError: fewer than two values, which leave their spread unknown.
    """
    if len(values) < 2:
        raise ValueError(f"an interval over {len(values)} values is unknown; it needs at least two")
    margin = student_quantile(len(values) - 1) * stdev(values) / sqrt(len(values))
    return mean(values) - margin, mean(values) + margin


def sign_flip_p(differences: Sequence[float]) -> float | None:
    """Two-sided exact p value of a mean of paired differences (Fisher's randomisation of signs, 1935).

    The share of all 2^n choices of signs whose sum is at least as far from 0 as the one observed; its least value is
    2 / 2^n, 0.25 for three pairs. None for no differences or more than ``MAX_FLIPS``.
    """
    if not 0 < len(differences) <= MAX_FLIPS:
        return None
    observed = abs(sum(differences))
    slack = 1e-9 * sum(map(abs, differences))  # sums of the same numbers in another order
    sums: list[float] = [sum(map(mul, signs, differences)) for signs in product((1, -1), repeat=len(differences))]
    return sum(abs(total) >= observed - slack for total in sums) / len(sums)
