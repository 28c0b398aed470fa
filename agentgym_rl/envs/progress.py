"""Progress of long work: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_S = 10.0
"""Seconds between two lines where standard error is no terminal, as in a batch job."""
MB = 10**6
"""Bytes, for progress through a file."""


@contextmanager
def progress_bar(
    title: str, detail: Callable[[], str] = str, *, shown: bool = True
) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, or a line now and then where that is no terminal; gives a function of the number done
    and of the total.

    Args:
        detail: follows the title, asked for at every step.
        shown: whether there is anything to see.
    """
    if not shown:
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield _lines(title, detail)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True, console=screen) as bar:
        running = bar.add_task(title)
        yield lambda done, total: bar.update(running, completed=done, total=total, description=title + detail())


def _lines(title: str, detail: Callable[[], str]) -> Callable[[int, int], None]:
    """Progress in lines, none of work that is done within seconds."""
    begun = told = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal told
        if (now := time.monotonic()) - told >= LINE_S:
            told = now
            print(f"{title}{detail()}: {done} of {total}, {now - begun:.0f} s", file=sys.stderr, flush=True)

    return progress
