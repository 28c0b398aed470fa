"""When a run saves and ends before it is finished."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""Ctrl-C, and what schedulers send before they end a job."""


class Stop:
    """Asked at the end of each unit: true after a signal, or when the run's time is over.

    The first signal lets the present unit finish. A second one ends the run at once, and so does the time that a
    scheduler leaves after its signal; the run then goes on from its last checkpoint.
    """

    def __init__(self, say: Callable[[str], None], stop_seconds: float, max_hours: float | None = None) -> None:
        """
        Args:
            stop_seconds: how long the present unit may take after SIGTERM or SIGUSR1.
            max_hours: the time of the run, from now on.
        """
        self._say = say
        self._stop_seconds = stop_seconds
        self._max_hours = max_hours
        self._ends = float("inf") if max_hours is None else time.monotonic() + 3600 * max_hours
        self._asked = self._signalled = False
        self._launching = False
        self._timer: threading.Timer | None = None

    def __call__(self) -> bool:
        """True if the run should save and end; saving may then take all the time it needs."""
        if not self._asked and time.monotonic() >= self._ends:
            self._asked = True
            self._say(f"run.max_hours={self._max_hours:g} are over: saving")
        if self._asked:
            self.end()
        return self._asked

    def handle(self, number: int, frame: Any) -> None:
        """The signal handler of the main thread."""
        if self._signalled or self._launching:
            raise KeyboardInterrupt
        self._signalled = True
        if self._asked:
            self._say("saving already; a second signal stops at once")
            return
        self._asked = True
        if number == signal.SIGINT:
            self._say("stopping after this step and saving; Ctrl-C again stops at once")
            return
        limit = f"at most {self._stop_seconds:g} s (run.stop_seconds)"
        self._say(f"{signal.Signals(number).name}: stopping after this step, {limit}, and saving")
        main = threading.main_thread().ident or 0
        self._timer = threading.Timer(self._stop_seconds, signal.pthread_kill, (main, signal.SIGINT))
        self._timer.daemon = True
        self._timer.start()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside there is no unit that could finish: the first signal ends the run."""
        self._launching = True
        try:
            yield
        finally:
            self._launching = False

    def end(self) -> None:
        """The present unit has ended: the limit on its time is gone."""
        if self._timer is not None:
            self._timer.cancel()


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """Inside, SIGTERM raises KeyboardInterrupt, for the time in which there is no :class:`Stop` yet."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def on_signals(stop: Stop) -> Iterator[Stop]:
    """Inside, signals are handled by ``stop``."""
    previous = {number: signal.signal(number, stop.handle) for number in SIGNALS}
    try:
        yield stop
    finally:
        stop.end()
        for number, handler in previous.items():
            signal.signal(number, handler)
