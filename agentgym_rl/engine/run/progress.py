"""Progress of a run: lines for what happened; for what is happening one bar, or a line now and then in a pipe."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from agentgym_rl.envs.progress import LINE_S


class _Count(MofNCompleteColumn):
    """How many are done, of how many; nothing where that is not known."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


@dataclass
class _Work:
    """What is under way, since when, and for how many seconds it had been when a line last told it."""

    text: str
    since: float
    told_s: float = 0.0


class Progress:
    """A live bar on a terminal; elsewhere a line of what is under way after :data:`LINE_S` seconds of silence, and
    again each time that it has taken twice as long.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.started = self._said = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), _Count(), TimeElapsedColumn())
        self._progress = RichProgress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("", total=None, visible=False)
        self._subject = ""
        self._work: _Work | None = None
        self._ended = threading.Event()
        self._teller = threading.Thread(target=self._tell, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        self._progress.start()
        if not self.console.is_terminal:
            self._teller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._teller.is_alive():
            self._teller.join()
        self._progress.stop()

    def say(self, text: str) -> None:
        """A line with the time since the start, however long."""
        self._said = time.monotonic()
        seconds = int(self._said - self.started)
        stamp = f"[dim]{seconds // 60:3d}:{seconds % 60:02d}[/dim]"
        self.console.print(f"{stamp} {escape(text)}", highlight=False, soft_wrap=True)

    def bar(self, subject: str, done: int, total: int) -> None:
        """How far ``subject`` is."""
        text = f"{subject}: {done} of {total}"
        if self._work is None or text != self._work.text:
            self._work = _Work(text, time.monotonic())
        if subject != self._subject:
            self._subject = subject
            self._progress.reset(self._task)
        self._progress.update(self._task, description=subject, completed=done, total=max(1, total), visible=True)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Inside, for how many seconds something is under way that has no parts to count."""
        self._work = _Work(what, time.monotonic())
        task = self._progress.add_task(what, total=None)
        try:
            yield
        finally:
            self._work = None
            self._progress.remove_task(task)

    def _tell(self) -> None:
        while not self._ended.wait(1.0):
            self.look()

    def look(self) -> None:
        """Say what is under way, where that is due."""
        work, now = self._work, time.monotonic()
        if work is None or now - self._said < LINE_S or (seconds := now - work.since) < 2 * work.told_s:
            return
        work.told_s = seconds
        self.say(work.text + (f" for {seconds:.0f} s" if seconds >= LINE_S else ""))
