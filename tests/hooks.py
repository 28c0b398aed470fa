"""Hooks of ``conftest.py``: what a test needs of the machine, and what a run says at its end."""

from __future__ import annotations

import gc
import os
import shutil
from collections import Counter
from typing import Any

import pytest
from sweep import SWEEP, some

LONG_S = 2.0
"""Seconds from which a test is to be marked ``slow``, or to do less."""
LEFT_OUT = {"slow", "e2e", "chaos", "nodes", "pairs"}
"""Markers of tests that are not run by default."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker more than cores: tests wait for servers and processes of their own."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
    if 1 < SWEEP < 10:  # CI
        left_out = {id(item) for item in beyond_the_sweep(items)}
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
        items[:] = [item for item in items if id(item) not in left_out]


def beyond_the_sweep(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of the slow cases of each test, those that are not tried."""
    tables: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow"):
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [case for cases in tables.values() for case in cases if case not in some(cases)]


def pytest_collection_finish() -> None:
    """The collector of garbage need not look at what was imported, again and again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("java") and shutil.which("java") is None:
        pytest.skip("there is no Java; install it with: apt-get install default-jre-headless")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Each reason for skipping, once; in CI also what took long without being marked so."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")
    if os.environ.get("CI"):
        for name, seconds in long(terminalreporter.stats).most_common():
            terminalreporter.write_line(f"{seconds:.1f} s, not marked slow: {name}")


def long(stats: dict[str, list[Any]]) -> Counter[str]:
    """Seconds of the tests, with their fixtures, that took longer than :data:`LONG_S` and are not marked."""
    seconds: Counter[str] = Counter()
    for report in (report for reports in stats.values() for report in reports):
        if isinstance(report, pytest.TestReport) and not LEFT_OUT & report.keywords.keys():
            seconds[report.nodeid] += report.duration
    return Counter({name: taken for name, taken in seconds.items() if taken > LONG_S})
