"""Progress of long work: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

LINE_S = 10.0
"""Seconds of silence before a line where standard error is no terminal, as in a batch job."""
MB = 10**6
"""Bytes, for progress through a file."""


@dataclass
class _Work:
    """What is under way, since when, and for how many seconds it had been when a line last told it."""

    text: str
    since: float
    told_s: float = 0.0


class Lines:
    """Inside, a line of what is under way after :data:`LINE_S` seconds of silence, and again each time that it has
    taken twice as long; at the end of the work one more, where there was silence.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, time.monotonic()
        self._work: _Work | None = None
        self._ended = threading.Event()
        self._teller = threading.Thread(target=self._tell, name="progress", daemon=True)

    def __enter__(self) -> Lines:
        self._teller.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._teller.join()
        if kind is None:
            self.look()

    def under_way(self, text: str) -> None:
        """What is done now; empty where nothing is."""
        if not text:
            self._work = None
        elif self._work is None or text != self._work.text:
            self._work = _Work(text, time.monotonic())

    def heard(self) -> None:
        """Another line has broken the silence."""
        self._said = time.monotonic()

    def look(self) -> None:
        """Say what is under way, where that is due."""
        work, now = self._work, time.monotonic()
        if work is None or now - self._said < LINE_S or (seconds := now - work.since) < 2 * work.told_s:
            return
        work.told_s, self._said = seconds, now
        self._say(work.text + (f" for {seconds:.0f} s" if seconds >= LINE_S else ""))

    def _tell(self) -> None:
        while not self._ended.wait(1.0):
            self.look()


def stamp(seconds: float) -> str:
    """Minutes and seconds in front of a line."""
    return f"{int(seconds) // 60:3d}:{int(seconds) % 60:02d}"


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
        begun = time.monotonic()
        with Lines(lambda text: print(stamp(time.monotonic() - begun), text, file=sys.stderr, flush=True)) as lines:
            yield lambda done, total: lines.under_way(f"{title}{detail()}: {done} of {total}")
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True, console=screen) as bar:
        running = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(running, completed=done, total=total, description=title + detail())
