"""How much is tried: with ``SWEEP=10`` twenty times as much of a sweep or property as by default, in CI three times."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

SWEEP = int(os.environ.get("SWEEP", "1"))


def swept(most: int) -> int:
    """All of a number from ``SWEEP=10`` on and a twentieth of it at 1, but ten at least where it is larger."""
    return most if SWEEP >= 10 else max(min(most, 10), most * SWEEP // 20)


def some(cases: Sequence[Case]) -> list[Case]:
    """As many of the cases as are to be tried, at equal distances."""
    return spread(cases, swept(len(cases)))


def spread(cases: Sequence[Case], n: int) -> list[Case]:
    """At most ``n`` cases at equal distances."""
    return [cases[len(cases) * place // n] for place in range(n)] if len(cases) > n else list(cases)


def thinned(rows: Iterable[Any], n: int) -> list[Any]:
    """Every ``n``-th row of a table as it is, the others marked ``slow``: one is mostly wrong where more are."""
    return [
        row if place % n == 0 else pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.slow)
        for place, row in enumerate(rows)
    ]
