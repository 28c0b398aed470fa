"""Progress of a run: lines for what happened; for what is happening one bar, or a line now and then in a pipe."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

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


class Progress:
    """A live bar on a terminal; elsewhere a line of it when nothing was said for a while."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.started = self._said = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), _Count(), TimeElapsedColumn())
        self._progress = RichProgress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("", total=None, visible=False)
        self._subject = ""

    def __enter__(self) -> Progress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """A line with the time since the start, however long."""
        self._said = time.monotonic()
        seconds = int(self._said - self.started)
        stamp = f"[dim]{seconds // 60:3d}:{seconds % 60:02d}[/dim]"
        self.console.print(f"{stamp} {escape(text)}", highlight=False, soft_wrap=True)

    def bar(self, subject: str, done: int, total: int) -> None:
        """How far ``subject`` is."""
        if not self.console.is_terminal:
            if time.monotonic() - self._said >= LINE_S:
                self.say(f"{subject}: {done} of {total}")
            return
        if subject != self._subject:
            self._subject = subject
            self._progress.reset(self._task)
        self._progress.update(self._task, description=subject, completed=done, total=max(1, total), visible=True)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Inside, for how many seconds something is under way: beside a moving bar, or in a line now and then."""
        begun, ended = time.monotonic(), threading.Event()

        def tell() -> None:
            while not ended.wait(LINE_S):
                self.say(f"{what}: {time.monotonic() - begun:.0f} s")

        task = self._progress.add_task(what, total=None)
        teller = threading.Thread(target=tell, name="waiting", daemon=True)
        if not self.console.is_terminal:
            teller.start()
        try:
            yield
        finally:
            ended.set()
            if teller.is_alive():
                teller.join()
            self._progress.remove_task(task)
