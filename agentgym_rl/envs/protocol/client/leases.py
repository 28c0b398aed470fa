"""Sessions on AgentGym servers: opened, and closed whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from agentgym_rl.envs.core import EnvError, ProtocolError
from agentgym_rl.envs.http import Absent, Unconnected
from agentgym_rl.envs.pool import Member
from agentgym_rl.envs.protocol.client.offers import Digests, ask, check_name
from agentgym_rl.envs.protocol.client.servers import Missing, Refused, Servers
from agentgym_rl.envs.protocol.wire import Dialect

log = logging.getLogger(__name__)

T = TypeVar("T")

CLOSE_S = 5.0
"""Most seconds for closing a session."""

_background: set[asyncio.Task[Any]] = set()


@dataclass(eq=False)
class Lease:
    """A session on a server."""

    servers: Servers
    dialect: Dialect
    member: Member
    base: str
    """URL that the routes follow."""
    session: int
    lost: bool = False
    """The server is gone, or has started anew, so that nothing is left to close."""

    @classmethod
    async def open(cls, servers: Servers, dialect: Dialect, patience: float, avoid: Member | None = None) -> Lease:
        """Open a session on the least loaded server that works. Cancelled meanwhile, it is closed again.

        Raises:
            EnvUnavailable: no server works.
            ProtocolError: a server does not speak the protocol.
        """

        async def opened() -> Lease:
            try:
                member, (base, session) = await servers.pool.lease(
                    lambda address: _create(servers, dialect, address), patience, avoid
                )
            except EnvError:
                await servers.tidy()
                raise
            lease = servers.leased[member.name, session] = cls(servers, dialect, member, base, session)
            return lease

        task = _keep(opened())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_close_opened)
            raise

    async def request(self, method: str, path: str, **content: Any) -> Any:
        """See :meth:`Servers.request`. Raises Refused: the session is lost, too."""
        if self.lost:
            raise Refused(f"session {self.session} of {self.base} is lost: the server has started anew")
        try:
            return await self.servers.request(self.base, method, path, **content)
        except Absent as error:
            self.servers.pool.failed(self.member, error)
            self.lost = isinstance(error, Unconnected)
            raise
        except Refused:
            self.servers.spare.pop(self.member.name, None)  # a server that restarted has none of them
            raise

    async def close(self, reusable: bool) -> None:
        """Close the session, also when the caller is cancelled. It is no error if the server fails at it.

        Args:
            reusable: where the server cannot close sessions, the next lease may have this one.
        """
        await asyncio.shield(_keep(self._close(reusable)))

    async def _close(self, reusable: bool) -> None:
        try:
            if not self.lost:
                named = {str(self.dialect.key): self.session}
                await self.servers.request(self.base, "POST", "/close", body=named, seconds=CLOSE_S)
        except Missing:
            if reusable:
                self.servers.spare.setdefault(self.member.name, []).append(self.session)
        except (Refused, Unconnected):  # the server has lost the session, or is gone
            return
        except EnvError as error:
            log.warning("a session was left open: %s", error)
        finally:
            if self.servers.leased.get(place := (self.member.name, self.session)) is self:
                del self.servers.leased[place]
            self.servers.pool.release(self.member)
            await self.servers.tidy()


async def reach(dialect: Dialect, servers: Servers) -> list[tuple[str, Digests | None]]:
    """Open a session on each server, and close it; returns the URLs and what each tells of its tasks.

    Raises:
        EnvUnavailable, EnvTimeout, ProtocolError: a server cannot, or has another environment; the message names it.
    """
    answers = []
    for member in servers.pool.members:
        try:
            base, session = await _create(servers, dialect, member.name)
        except EnvError as error:
            try:
                if isinstance(error, ProtocolError):
                    await check_name(servers, member.name, dialect)
                raise
            finally:
                await servers.tidy()
        member.leases += 1
        try:
            answers.append((base, await ask(servers, base, dialect)))
        finally:
            await Lease(servers, dialect, member, base, session).close(reusable=False)
    return answers


async def _create(servers: Servers, dialect: Dialect, address: str) -> tuple[str, int]:
    """URL and id of a session at an address; of an environment that is not there, at ``<address>/<name>``.

    An id that a lease has already is one of a server that has started anew, so that the lease is lost; or of one that
    recycles its sessions, and so has no further one (Absent).
    """
    if servers.spare.get(address):
        return servers.bases[address], servers.spare[address].pop()
    bases = [servers.bases[address]] if address in servers.bases else [address, f"{address}/{dialect.env}"]
    for base in bases:
        try:
            body = await servers.request(base, "POST", "/create", body=dialect.create_body)
        except Missing as error:
            missing = error
            continue
        session = dialect.new_session(body)
        servers.bases[address] = base
        if (older := servers.leased.get((address, session))) is not None:
            if dialect.recycles:
                raise Absent(f"{base} has no further session: it gave out {session} again; set host.sessions")
            older.lost = True
        return base, session
    servers.bases.pop(address, None)
    raise missing


def _close_opened(task: asyncio.Task[Lease]) -> None:
    if not task.cancelled() and task.exception() is None:
        _keep(task.result()._close(reusable=True))


def _keep(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run work that goes on without the caller."""
    task = asyncio.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task
