"""Which packages a process spends its time in; for ``benchmarks/rollout.py --profile``."""

from __future__ import annotations

import cProfile
import pstats
import re
import time
from collections import Counter
from collections.abc import Callable

from rich.table import Table

PACKAGE = re.compile(r"/(?:site-packages|python3\.\d+)/(?!site-packages)([\w.-]+)|/(agentgym_rl|benchmarks)/")
BUILT_IN = "~"
"""The file of functions that are not written in Python."""


def profile(work: Callable[[], object]) -> dict[str, float]:
    """CPU seconds of this thread by package; what is not written in Python counts for the package that called it."""
    profiler = cProfile.Profile(time.thread_time)
    profiler.runcall(work)
    return by_package(pstats.Stats(profiler))


def by_package(stats: pstats.Stats) -> dict[str, float]:
    """Own time of all functions by package, the longest first."""
    spent: Counter[str] = Counter()
    for (file, _, _), (_, _, own_s, _, callers) in stats.stats.items():  # type: ignore[attr-defined]
        if file != BUILT_IN or not callers:
            spent[package(file)] += own_s
            continue
        for (caller, _, _), (_, _, own_there, _) in callers.items():
            spent[package(caller)] += own_there
    return dict(spent.most_common())


def package(file: str) -> str:
    """The package of a file."""
    match = PACKAGE.search(file)
    return (match[1] or match[2]).removesuffix(".py") if match else "other"


def table(spent: dict[str, float], turns: int) -> Table:
    shown = Table(title="CPU time of the rollout's own thread, under a profiler")
    for head in ("package", "ms/turn", "share, %"):
        shown.add_column(head, justify="left" if head == "package" else "right")
    total = sum(spent.values())
    for name, seconds in spent.items():
        if seconds > 0.01 * total:
            shown.add_row(name, f"{1000 * seconds / turns:.2f}", f"{100 * seconds / total:.0f}")
    return shown
