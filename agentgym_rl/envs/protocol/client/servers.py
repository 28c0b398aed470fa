"""Requests to a set of AgentGym servers: one HTTP session, one pool, for each event loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, InvalidURL, TCPConnector

from agentgym_rl.envs.core import EnvError, EnvTimeout, EnvUnavailable, ProtocolError, TaskNotFound
from agentgym_rl.envs.hosts.elsewhere import PerLoop
from agentgym_rl.envs.hosts.settings import Host
from agentgym_rl.envs.pool import Member, Pool
from agentgym_rl.envs.protocol.wire import error_in

PROBE_S = 5.0
"""Most seconds for a server's answer to whether it is there."""
CONNECT_S = 10.0
"""Most seconds to connect."""
IDLE_S = 4.0
"""Seconds a connection is kept without a request: less than servers keep theirs (uvicorn 5), so that none is closed by
the server just when a step is sent."""
AWAY = (502, 503, 504)
"""Statuses that say the server behind the address is not there or full."""


class Away(EnvUnavailable):
    """There is no server at the address, or it is full."""


class Refused(EnvUnavailable):
    """The server is there and reports an error: it has lost the session, does not know the task, or has failed."""


class Missing(ProtocolError):
    """The server has no such route."""


class Servers:
    """The servers of one event loop. The HTTP session lasts as long as there are leases.

    Errors name the address and what was asked.
    """

    def __init__(self, host: Host) -> None:
        self.timeout = host.timeout
        self._token = host.token
        self._http: ClientSession | None = None
        self.spare: dict[str, list[int]] = {}
        """Sessions by the address they lie at that are not in use but cannot be closed."""
        self.bases: dict[str, str] = {}
        """Where each address has the world."""
        self.pool = Pool([address.rstrip("/") for address in host.addresses], host.sessions, self.probe)

    async def probe(self, address: str) -> None:
        """Whether a server answers at all.

        Raises:
            EnvUnavailable, EnvTimeout: it does not.
        """
        try:
            await self.ask(address, "GET", "/", seconds=PROBE_S)
        except ProtocolError:  # AgentGym's server of maze and wordle has no page at their paths
            return

    async def ask(
        self,
        address: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, int] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """The JSON a server replies with.

        Raises:
            Away: no connection, or nobody behind it.
            Refused: the server reports an error, under status 200 or with a status of its own.
            TaskNotFound: it says that it has no such task; AgentGym's servers do not tell this from other errors.
            EnvTimeout: no answer within ``seconds`` (the host's time limit where left out).
            Missing: there is no such route.
            ProtocolError: the request is refused as wrong, or the answer is no JSON.
        """
        limit = self.timeout if seconds is None else seconds
        what = f"{method} {address}{path}"
        try:
            async with self._session().request(
                method,
                address + path,
                json=body,
                params=query,
                timeout=ClientTimeout(total=limit, sock_connect=min(limit, CONNECT_S)),
            ) as response:
                status, text = response.status, await response.text()
        except TimeoutError as error:
            raise EnvTimeout(f"{what}: no answer within {limit:g} s") from error
        except InvalidURL as error:
            raise ProtocolError(f"{what}: {address!r} is no URL") from error
        except (ClientError, OSError) as error:
            raise Away(f"{what}: {str(error) or type(error).__name__}") from error
        except UnicodeDecodeError as error:
            raise ProtocolError(f"{what}: the answer is no text ({error})") from error
        try:
            reply = json.loads(text)
        except json.JSONDecodeError as error:
            if status == 200:
                raise ProtocolError(f"{what}: the answer is no JSON: {_brief(text)}") from error
            reply = None
        if status != 200 or error_in(reply) is not None:
            kind = reply.get("type") if isinstance(reply, dict) else None
            raise _error(status, kind)(f"{what} with {json.dumps(body)}: status {status}, {_brief(text)}")
        return reply

    async def release(self, member: Member) -> None:
        """End a lease."""
        self.pool.release(member)
        await self.tidy()

    async def tidy(self) -> None:
        """Close the connections where nobody has a lease or waits for one."""
        if self.pool.idle and self._http is not None:
            http, self._http = self._http, None
            await http.close()

    def _session(self) -> ClientSession:
        if self._http is None:
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else None
            connector = TCPConnector(limit=0, keepalive_timeout=IDLE_S)
            self._http = ClientSession(connector=connector, headers=headers)
        return self._http


_SERVERS: dict[tuple[str, Host], PerLoop[Servers]] = {}


def servers(world: str, host: Host) -> Servers:
    """The servers of a world for the running event loop, shared by all its sessions with the same settings."""
    if (world, host) not in _SERVERS:
        _SERVERS[world, host] = PerLoop(lambda: Servers(host))
    return _SERVERS[world, host].get()


def _error(status: int, kind: object) -> type[EnvError]:
    """The error of a reply; ``kind`` is what our own servers call it."""
    if kind == TaskNotFound.__name__:
        return TaskNotFound
    if kind == "UnknownSession" or status == 200:
        return Refused
    if status in (404, 405):
        return Missing
    if status in AWAY:
        return Away
    return Refused if status >= 500 else ProtocolError


def _brief(text: str) -> str:
    return repr(" ".join(text.split())[:200])
