"""How much is tried. With ``SWEEP=10``, as in CI, tests marked ``sweep`` and properties try ten times as much."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

SWEEP = int(os.environ.get("SWEEP", "1"))


def swept(most: int) -> int:
    """All of a number at ``SWEEP=10`` and a tenth of it at 1, but ten at least where it is larger."""
    return max(min(most, 10), most * SWEEP // 10)


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
