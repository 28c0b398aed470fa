"""Progress of a run in the terminal: lines for what happened, one bar for what is happening."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress


class Progress:
    """A live bar on a terminal; elsewhere a line whenever the bar's subject changes."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.started = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = RichProgress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("", total=None, visible=False)
        self._subject = ""

    def __enter__(self) -> Progress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """A line with the time since the start."""
        seconds = int(time.monotonic() - self.started)
        self.console.print(f"[dim]{seconds // 60:3d}:{seconds % 60:02d}[/dim] {text}", highlight=False)

    def bar(self, subject: str, done: int, total: int) -> None:
        """How far ``subject`` is."""
        if subject != self._subject:
            self._subject = subject
            self._progress.reset(self._task)
            if not self.console.is_terminal:
                self.say(subject)
        self._progress.update(self._task, description=subject, completed=done, total=max(1, total), visible=True)
