"""Open sessions: their ids, their number and their end."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agentgym_rl.envs.core import TextEnv
from agentgym_rl.envs.protocol.wire import MAX_SESSION, State

log = logging.getLogger(__name__)


class Full(Exception):
    """As many sessions are open as may be."""


@dataclass(slots=True, eq=False)
class Session:
    """One client's world."""

    id: int
    world: str
    env: TextEnv
    used: float
    """Time of the last use."""
    state: State | None = None
    """None before the first reset."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the world works."""
    closed: bool = False


class Sessions:
    """The sessions of one worker.

    Ids are drawn from a cryptographic source, so that a stranger cannot guess one and an id from before a restart
    means nothing; id modulo ``workers`` is the worker's number.

    Args:
        limit: sessions that may be open.
        ttl: seconds after which an unused one expires.
        clock: time in seconds.
    """

    def __init__(
        self, limit: int, ttl: float, worker: int = 0, workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit, self._ttl, self._worker, self._workers, self._clock = limit, ttl, worker, workers, clock
        self._open: dict[int, Session] = {}

    def __len__(self) -> int:
        return len(self._open)

    def count(self, world: str) -> int:
        return sum(session.world == world for session in self._open.values())

    def open(self, world: str, make: Callable[[], TextEnv]) -> Session:
        """Open a session of the world that ``make`` gives.

        Raises:
            Full: there are too many.
        """
        if len(self._open) >= self._limit:
            raise Full(
                f"{self._limit} sessions are open, as many as may be; close some, or wait {self._ttl:g} s for unused "
                "ones to expire"
            )
        number = self._draw()
        while number in self._open:
            number = self._draw()
        session = self._open[number] = Session(number, world, make(), self._clock())
        return session

    def find(self, number: int, world: str) -> Session | None:
        """An open session of a world."""
        session = self._open.get(number)
        return session if session is not None and session.world == world else None

    def use(self, session: Session) -> None:
        """Note that a session is used now."""
        session.used = self._clock()

    async def close(self, session: Session) -> bool:
        """Close a session once its world has finished what it is doing; False when it was closed before."""
        async with session.lock:
            if session.closed:
                return False
            session.closed = True
            del self._open[session.id]
            try:
                await session.env.close()
            except Exception:  # a world that cannot close itself keeps neither the others nor the server open
                log.exception("a session of %s did not close properly", session.world)
        return True

    async def expire(self) -> list[Session]:
        """Close what has not been used for longer than the time to live."""
        last = self._clock() - self._ttl
        old = [session for session in self._open.values() if session.used < last and not session.lock.locked()]
        return [session for session in old if await self.close(session)]

    async def close_all(self) -> None:
        await asyncio.gather(*(self.close(session) for session in list(self._open.values())))

    def _draw(self) -> int:
        return secrets.randbelow(MAX_SESSION // self._workers) * self._workers + self._worker
