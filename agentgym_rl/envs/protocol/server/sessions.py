"""Open sessions: their ids, their number and their end."""

import asyncio
import ctypes
import gc
import logging
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agentgym_rl.envs.core import TextEnv
from agentgym_rl.envs.protocol.wire import MAX_SESSION, State

log = logging.getLogger(__name__)

CLOSE_S = 5.0
"""Most seconds that the expiry of sessions waits until they are closed."""


class Full(Exception):
    """The limit of open sessions is reached."""


@dataclass(slots=True, eq=False)
class Session:
    """One client's session."""

    id: int
    name: str
    """Name of its environment."""
    env: TextEnv
    used: float
    """Time of the last use."""
    state: State | None = None
    """None before the first reset."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the environment works."""
    closed: bool = False


class Sessions:
    """The sessions of one worker.

    Ids come from a cryptographic source, so that they cannot be guessed and an id from before a restart is not reused.
    The id modulo ``workers`` is the worker's number.

    Args:
        limit: most open sessions of all workers; each has an equal share of it.
        ttl: seconds after which an unused one expires.
        clock: time in seconds.
    """

    def __init__(
        self, limit: int, ttl: float, worker: int = 0, workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit, self._ttl, self._worker, self._workers, self._clock = limit, ttl, worker, workers, clock
        self._share = limit // workers + (worker < limit % workers)
        self._open: dict[int, Session] = {}
        self._expiring: set[asyncio.Task[bool]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, name: str, make: Callable[[], TextEnv]) -> Session:
        """Open a session of the environment that ``make`` constructs. Raises Full: there are too many."""
        if len(self._open) >= self._share:
            part = "" if self._workers == 1 else f" in one of {self._workers} workers, which share {self._limit}"
            raise Full(
                f"{self._share} sessions are open{part}, as many as may be; close some, or wait {self._ttl:g} s for "
                "unused ones to expire"
            )
        number = self._draw()
        while number in self._open:
            number = self._draw()
        session = self._open[number] = Session(number, name, make(), self._clock())
        return session

    def find(self, number: int, name: str) -> Session | None:
        """An open session of an environment."""
        session = self._open.get(number)
        return session if session is not None and session.name == name else None

    def use(self, session: Session) -> None:
        """Record that a session is used now."""
        session.used = self._clock()

    async def close(self, session: Session) -> bool:
        """Close a session once its environment has finished its work; False when it was closed before."""
        async with session.lock:
            if session.closed:
                return False
            session.closed = True
            del self._open[session.id]
            try:
                await session.env.close()
            except Exception:  # an environment that fails to close must not keep other sessions or the server open
                log.exception("a session of %s did not close properly", session.name)
        return True

    async def expire(self) -> list[str]:
        """Close the sessions that were not used for longer than ``ttl``, and give their memory back to the system.

        One that takes longer than :data:`CLOSE_S` counts as closed; its environment goes on closing.

        Returns:
            The name of each one's environment; the session itself would keep its memory.
        """
        named = {
            asyncio.create_task(self._expire(each)): each.name for each in self._open.values() if self._unused(each)
        }
        if not named:
            return []
        for task in named:
            self._expiring.add(task)
            task.add_done_callback(self._expiring.discard)
        _, hanging = await asyncio.wait(named, timeout=CLOSE_S)
        for task in hanging:
            log.warning("a session of %s takes longer than %g s to close", named[task], CLOSE_S)
        names = [name for task, name in named.items() if task in hanging or task.result()]
        if names:
            _give_back_memory()
        return names

    async def _expire(self, session: Session) -> bool:
        """Close a session, unless it was used while others were closed."""
        return self._unused(session) and await self.close(session)

    def _unused(self, session: Session) -> bool:
        return session.used < self._clock() - self._ttl and not session.lock.locked()

    async def close_all(self) -> None:
        await asyncio.gather(*(self.close(session) for session in list(self._open.values())), *self._expiring)

    def _draw(self) -> int:
        return secrets.randbelow(MAX_SESSION // self._workers) * self._workers + self._worker


def _give_back_memory() -> None:
    """Collect garbage, and let the C library return unused pages to the system, where it can (glibc)."""
    gc.collect()
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)
