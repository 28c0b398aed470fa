"""How much is tried. With ``SWEEP=10``, as in CI, tests marked ``sweep`` and properties try twenty times as much."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

SWEEP = int(os.environ.get("SWEEP", "1"))


def swept(most: int) -> int:
    """All of a number from ``SWEEP=10`` on and a twentieth of it at 1, but ten at least where it is larger."""
    return most if SWEEP >= 10 else max(min(most, 10), most * SWEEP // 20)


def some(indices: Sequence[int]) -> list[int]:
    """As many of the indices as are to be tried, at equal distances."""
    return spread(indices, swept(len(indices)))


def spread(indices: Sequence[int], n: int) -> list[int]:
    """At most ``n`` indices at equal distances."""
    return [indices[len(indices) * place // n] for place in range(n)] if len(indices) > n else list(indices)


def thinned(rows: Iterable[Any], n: int) -> list[Any]:
    """Every ``n``-th row of a table as it is, the others marked ``slow``: one is mostly wrong where more are."""
    return [
        row if place % n == 0 else pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.slow)
        for place, row in enumerate(rows)
    ]
