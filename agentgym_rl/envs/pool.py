"""Leases of sessions: each goes to the least loaded server, process or actor that works."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TypeVar

from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable

T = TypeVar("T")

FIRST_BACKOFF = 0.5
"""Seconds without new leases after a first failure; doubled with each further one."""
LONGEST_BACKOFF = 30.0


@dataclass(slots=True, eq=False)
class Member:
    """A server, process or actor from which sessions are leased."""

    name: str
    """An address, or a name for messages."""
    leases: int = 0
    """Its open sessions."""
    failures: int = 0
    """Failures in a row."""
    down_since: float = 0.0
    """Time of the first of them."""
    back_at: float = 0.0
    """Time (:func:`time.monotonic`) from which a failed member may be tried again."""
    fault: str = ""
    """Message of the last failure."""


class Pool:
    """The members of one event loop.

    A lease goes to the member with the fewest. A member that failed gets none for a time that doubles with each failure
    in a row (from :data:`FIRST_BACKOFF` to :data:`LONGEST_BACKOFF` seconds). Then one caller tries it, and when that
    succeeds it gets leases again. What several callers find out at the same time is one failure.

    Args:
        names: of the members.
        sessions: most leases of a member; None sets no limit.
        probe: raises EnvUnavailable or EnvTimeout where the named member does not work; called for members that failed.
    """

    def __init__(
        self, names: Sequence[str], sessions: int | None = None, probe: Callable[[str], Awaitable[None]] | None = None
    ) -> None:
        self.members = tuple(Member(name) for name in names)
        self._sessions = sessions
        self._probe = probe
        self._changed = asyncio.Event()
        self._asking = 0

    @property
    def idle(self) -> bool:
        """Whether no lease is held or waited for."""
        return not self._asking and not any(member.leases for member in self.members)

    async def lease(
        self, open_at: Callable[[str], Awaitable[T]], patience: float, avoid: Member | None = None
    ) -> tuple[Member, T]:
        """Open something at a member; :meth:`release` must follow.

        Where opening raises EnvUnavailable or EnvTimeout, another member is tried. Waits as long as all working members
        are full, and at most ``patience`` seconds for one that works; an attempt that began within them may end later.

        Args:
            avoid: a member to use only where no other is free.

        Raises:
            EnvUnavailable: no member works.
        """
        self._asking += 1
        try:
            begun = time.monotonic()
            while True:
                given_up_at = self._given_up_at(begun, patience)
                member = self._choose(avoid)
                if member is None:
                    await self._wait(given_up_at)
                    continue
                member.leases += 1
                try:
                    return member, await self._open(open_at, member)
                except (EnvUnavailable, EnvTimeout):
                    self.release(member)
                except BaseException:  # also a cancelled caller
                    self.release(member)
                    raise
        finally:
            self._asking -= 1

    def release(self, member: Member) -> None:
        """End a lease."""
        member.leases -= 1
        self._changed.set()

    def failed(self, member: Member, error: Exception) -> None:
        """Record a failure of a member. Further failures during its back-off do not count."""
        if not member.failures or member.back_at <= time.monotonic():
            self._out(member, error)

    def _out(self, member: Member, error: Exception) -> None:
        now = time.monotonic()
        if not member.failures:
            member.down_since = now
        member.failures += 1
        member.fault = str(error)
        # the exponent's bound keeps the number finite
        wait = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** min(member.failures - 1, 20))
        member.back_at = now + wait
        self._changed.set()

    async def _open(self, open_at: Callable[[str], Awaitable[T]], member: Member) -> T:
        """Open at a member and record whether that failed. One that failed before is probed first, by one caller."""
        again = member.failures > 0
        if again:
            member.back_at = time.monotonic() + LONGEST_BACKOFF  # no other caller tries it meanwhile
        known = member.back_at
        try:
            if again and self._probe is not None:
                await self._probe(member.name)
            opened = await open_at(member.name)
        except (EnvUnavailable, EnvTimeout) as error:
            if member.back_at == known:  # else others have found out since this attempt began
                self._out(member, error)
            raise
        except BaseException:  # a wrong answer or a cancelled caller is no sign of its health
            if again and member.back_at == known:
                member.back_at = 0.0
            raise
        if again:
            member.failures = 0
            self._changed.set()
        return opened

    def _given_up_at(self, begun: float, patience: float) -> float:
        """Time at which a caller gives up that began at ``begun``: infinity while a member works.

        Raises:
            EnvUnavailable: it has come.
        """
        if not all(member.failures for member in self.members):
            return inf
        now, since = time.monotonic(), max(begun, *(member.down_since for member in self.members))
        if now >= since + patience:
            faults = "; ".join(f"{member.name}: {member.fault}" for member in self.members)
            raise EnvUnavailable(f"nothing answered within {patience:g} s ({faults})")
        return since + patience

    def _has_room(self, member: Member) -> bool:
        return self._sessions is None or member.leases < self._sessions

    def _choose(self, avoid: Member | None) -> Member | None:
        now = time.monotonic()
        free = [
            candidate
            for candidate in self.members
            if self._has_room(candidate) and (not candidate.failures or candidate.back_at <= now)
        ]
        return min(free, key=lambda member: (member is avoid, member.leases), default=None)

    async def _wait(self, given_up_at: float) -> None:
        """Wait until something may have changed, at most until ``given_up_at``."""
        moments = [member.back_at for member in self.members if member.failures and self._has_room(member)]
        until = min([*moments, given_up_at])
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(None if until == inf else until - time.monotonic()):
                await self._changed.wait()
