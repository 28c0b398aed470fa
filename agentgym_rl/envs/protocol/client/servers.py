"""Requests to a set of servers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aiohttp import ClientSession

from agentgym_rl.envs import http
from agentgym_rl.envs.core import EnvError, EnvUnavailable, ProtocolError, TaskNotFound
from agentgym_rl.envs.http import Absent
from agentgym_rl.envs.pool import Pool
from agentgym_rl.envs.protocol.wire import error_in

PROBE_S = 5.0
"""Most seconds for the answer to a probe."""
ABSENT = (502, 503, 504)
"""Statuses of a server that is absent or full."""


class Refused(EnvUnavailable):
    """The server reports an error: it has lost the session, does not know the task, or has failed."""


class Missing(ProtocolError):
    """The server has no such route."""


class Leased(Protocol):
    """What a session is leased to, see :class:`~agentgym_rl.envs.protocol.client.leases.Lease`."""

    lost: bool


class Servers:
    """The servers of one environment, for one event loop. The HTTP session lasts as long as there are leases.

    Errors name the address and the request.

    Args:
        addresses: URLs.
        timeout: most seconds for a request.
        sessions: most sessions that a server has at once.
        token: sent as ``Authorization: Bearer``.
    """

    def __init__(
        self, addresses: Sequence[str], timeout: float, sessions: int | None = None, token: str | None = None
    ) -> None:
        self.timeout, self._token = timeout, token
        self._http: ClientSession | None = None
        self.spare: dict[str, list[int]] = {}
        """Sessions, by address, that are not in use but cannot be closed."""
        self.leased: dict[tuple[str, int], Leased] = {}
        """The leases by address and session."""
        self.bases: dict[str, str] = {}
        """The URL under which each address has the environment."""
        self.pool = Pool([address.rstrip("/") for address in addresses], sessions, self.probe)

    async def probe(self, address: str) -> None:
        """Whether a server answers at all. Raises EnvUnavailable, EnvTimeout: it does not."""
        try:
            await self.request(address, "GET", "/", seconds=PROBE_S)
        except ProtocolError:  # AgentGym's server of maze and wordle has no page at their paths
            return

    async def request(
        self,
        address: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, int] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """The JSON of a server's response.

        Raises:
            Absent: no connection, or no server behind it.
            Refused: the server reports an error, under status 200 or with a status of its own.
            TaskNotFound: it has no such task; AgentGym's servers do not distinguish this from other errors.
            EnvTimeout: no answer within ``seconds`` (``timeout`` where left out).
            Missing: there is no such route.
            ProtocolError: the request is refused as wrong, or the answer is no JSON.
        """
        limit = self.timeout if seconds is None else seconds
        what = f"{method} {address}{path}"
        if self._http is None:
            self._http = http.session(self._token)
        status, answer = await http.request(self._http, method, address + path, limit, body, query)
        try:
            content = json.loads(answer)
        except (ValueError, RecursionError) as error:
            if status == 200:
                raise ProtocolError(f"{what}: the answer is no JSON: {_brief(answer)}") from error
            content = None
        if status != 200 or error_in(content) is not None:
            kind = content.get("type") if isinstance(content, dict) else None
            raise _error(status, kind)(f"{what} with {json.dumps(body)}: status {status}, {_brief(answer)}")
        return content

    async def tidy(self) -> None:
        """Close the connections where no lease is held or waited for."""
        if self.pool.idle and self._http is not None:
            idle, self._http = self._http, None
            await idle.close()


def _error(status: int, kind: object) -> type[EnvError]:
    """The error that a response reports; ``kind`` is its type, which our own servers name."""
    if kind == TaskNotFound.__name__:
        return TaskNotFound
    if kind == "UnknownSession" or status == 200:
        return Refused
    if status in (404, 405):
        return Missing
    if status in ABSENT:
        return Absent
    return Refused if status >= 500 else ProtocolError


def _brief(answer: bytes) -> str:
    return repr(" ".join(answer.decode("utf-8", "replace").split())[:200])
