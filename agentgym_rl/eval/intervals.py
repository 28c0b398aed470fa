"""Intervals for success rates."""

from __future__ import annotations

from math import sqrt

Z95 = 1.959963984540054
"""97.5% quantile of the normal distribution."""


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
