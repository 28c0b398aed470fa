"""Processes that run queries: a query that does not end, or needs too much, is ended with its process.

A worker keeps nothing between two queries, so the sessions of a process share a few workers.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from queue import LifoQueue

from agentgym_rl.envs.core import EnvFault, EnvTimeout, EnvUnavailable
from agentgym_rl.envs.extras import check_posix
from agentgym_rl.envs.sqlgym import sandbox
from agentgym_rl.envs.sqlgym.sandbox import OUT_OF_MEMORY, Limits, Refused, Row, Source

WORKERS = 4
"""Workers of a process; they start when they are needed."""
PATIENCE = 10
"""Seconds until a worker is killed, for each second of processor time that a query may take."""
LONGEST_MESSAGE = 1 << 27
"""Bytes of a result."""

FAILED = 1
"""Exit status of a process that raised an exception; a query's own faults are answers."""
_TOO_LONG = "the query takes too long"
_OUT_OF_MEMORY = "the query needs too much memory"


class Killed(Refused):
    """The query took too much processor time or memory, and so ended its process."""


class Worker:
    """One process. It ends when its connection closes, at the latest with the process that started it."""

    def __init__(self) -> None:
        """
        Raises:
            EnvUnavailable: the operating system cannot limit a process.
        """
        check_posix("limiting the process of a query", "use an address where `agentgym-rl serve sqlgym` runs")
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", sandbox.__file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def run(self, source: Source, limits: Limits, query: str, trusted: bool = False) -> list[Row]:
        """The rows of a query, see :meth:`.Sandbox.run`.

        Raises:
            Refused: the query could not be carried out.
            Killed: it took too much processor time or memory.
            EnvTimeout: no answer in time, because the process did not get its processor time.
            EnvUnavailable: the process was killed, also by :meth:`stop`.
            EnvFault: the process failed by itself.
        """
        try:
            rows, fault = self._ask(sandbox.request(source, limits, query, trusted), PATIENCE * limits.seconds)
        except BaseException:  # also a Ctrl-C: a worker that was not waited for answers the next one
            self.stop()
            self._connection.close()
            raise
        if rows is None:
            raise Refused(fault)
        return rows

    def stop(self) -> None:
        """End the process, whatever it is doing. May be called from another thread than :meth:`run`."""
        self._process.kill()
        self._process.wait()

    def _ask(self, request: bytes, seconds: float) -> sandbox.Answer:
        try:
            self._connection.send_bytes(request)
            if not self._connection.poll(seconds):
                raise EnvTimeout(f"the process of the database gave no answer within {seconds:g} s")
            return sandbox.answer(self._connection.recv_bytes(LONGEST_MESSAGE))
        except (EOFError, OSError) as error:
            self._connection.close()
            raise _fault(self._process.wait()) from error


def _fault(status: int) -> Exception:
    """What ended a worker, by the exit status of its process."""
    if status == -signal.SIGXCPU:
        return Killed(_TOO_LONG)
    if status == OUT_OF_MEMORY:
        return Killed(_OUT_OF_MEMORY)
    if status == FAILED:
        return EnvFault("the process of the database failed; its standard error says why")
    return EnvUnavailable(f"the process of the database was killed: it ended with status {status}")


class Workers:
    """A few workers that callers take in turn.

    Args:
        size: number of queries that run at the same time.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.forget()

    @contextmanager
    def lease(self) -> Iterator[Worker]:
        """A worker for one caller. Waits while all workers are busy.

        Raises:
            EnvUnavailable: no worker can be started.
        """
        free = self._free
        worker = free.get()
        try:
            if worker is None or worker.ended:
                worker = _start()
            yield worker
        finally:
            free.put(worker)

    def forget(self) -> None:
        """Start with new workers: after a fork those there are belong to the parent."""
        self._free: LifoQueue[Worker | None] = LifoQueue()
        for _ in range(self._size):
            self._free.put(None)


def _start() -> Worker:
    try:
        return Worker()
    except OSError as error:
        raise EnvUnavailable(f"a process for queries cannot be started: {error}") from error


POOL = Workers(WORKERS)
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=POOL.forget)
