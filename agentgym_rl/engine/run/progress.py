"""Progress of a run: lines for what happened; for what is happening one bar, or a line now and then in a pipe."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from agentgym_rl.envs.progress import Lines, stamp


class _Count(MofNCompleteColumn):
    """How many are done, of how many; nothing where that is not known."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


class Progress:
    """A live bar on a terminal, :class:`~agentgym_rl.envs.progress.Lines` elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.started = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), _Count(), TimeElapsedColumn())
        self._progress = RichProgress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("", total=None, visible=False)
        self._subject = ""
        self._lines = Lines(self.say)

    def __enter__(self) -> Progress:
        (self._progress if self.console.is_terminal else self._lines).__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        (self._progress if self.console.is_terminal else self._lines).__exit__(*raised)

    def say(self, text: str) -> None:
        """A line with the time since the start, however long."""
        self._lines.heard()
        begun = stamp(time.monotonic() - self.started)
        self.console.print(f"[dim]{begun}[/dim] {escape(text)}", highlight=False, soft_wrap=True)

    def bar(self, subject: str, done: int, total: int) -> None:
        """How far ``subject`` is."""
        self._lines.under_way(f"{subject}: {done} of {total}")
        if subject != self._subject:
            self._subject = subject
            self._progress.reset(self._task)
        self._progress.update(self._task, description=subject, completed=done, total=max(1, total), visible=True)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Inside, for how many seconds something is under way that has no parts to count."""
        self._lines.under_way(what)
        task = self._progress.add_task(what, total=None)
        try:
            yield
        finally:
            self._lines.under_way("")
            self._progress.remove_task(task)
