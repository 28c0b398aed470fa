"""The client of OpenEnv's protocol: what a server says of itself, and a session on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientError, ClientSession, ClientWebSocketResponse, WSMessage, WSMsgType

from agentgym_rl.envs import http
from agentgym_rl.envs.bounds import encodable
from agentgym_rl.envs.core import EnvError, EnvFault, EnvTimeout, EnvUnavailable, ProtocolError, TaskNotFound
from agentgym_rl.envs.http import CONNECT_S, MAX_ANSWER_BYTES, Absent
from agentgym_rl.envs.protocol.client.servers import PROBE_S
from agentgym_rl.envs.protocol.openenv.wire import Code, Data
from agentgym_rl.envs.tools import Tool, tool_of


class Invalid(ProtocolError):
    """The server refuses the data of a request as malformed. ``reason`` is what it says, fit for an agent."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Offer:
    """What a server says of its environment."""

    base: str
    """The URL that the routes follow, ``ws://`` or ``wss://``."""
    path: str
    """What follows a server's address in it: nothing, or ``/<name>``."""
    name: str
    """Of the environment, as the server has it."""
    description: str
    action: Data
    """JSON schema of its actions."""
    tools: tuple[Tool, ...] = ()
    splits: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the splits of its Task API; empty where it has none."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Of those splits, told by our servers only, see :func:`agentgym_rl.envs.numbering.digests`."""


async def ask(address: str, name: str, token: str | None = None, seconds: float = PROBE_S) -> Offer:
    """What the server at an address says. The environment may be at ``<address>/<name>``, too.

    Args:
        name: of the environment.
        seconds: most for each of the half a dozen requests.

    Raises:
        EnvUnavailable, EnvTimeout: there is no server, or no answer in time.
        ProtocolError: it does not speak OpenEnv's protocol.
    """

    async with http.session(token) as session:

        async def request(base: str, path: str, body: Data | None = None) -> Any:
            return await _request(session, base.replace("ws", "http", 1) + path, seconds, body)

        for path in ("", f"/{name}"):
            if isinstance(schema := await request(address + path, "/schema"), dict):
                break
        else:
            raise ProtocolError(f"{address} does not speak OpenEnv's protocol: it has no page /schema")
        base = address + path
        about = await request(base, "/metadata") or {}
        listed = await request(base, "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}) or {}
        names = await request(base, "/list_environments") or []
        try:
            splits, digests = {}, {}
            for split in (await request(base, f"/{names[0]}/splits") or []) if names else []:
                reply = await request(base, f"/{names[0]}/num_tasks", {"split": split["name"]})
                splits[str(split["name"])] = int(reply["num_tasks"])
                if "digest" in split:
                    digests[str(split["name"])] = str(split["digest"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"{base} does not tell its splits as OpenEnv's Task API does: {error!r}") from error
    try:
        tools = [
            tool_of(
                tool["name"], tool.get("description") or "", tool.get("inputSchema") or tool.get("input_schema") or {}
            )
            for tool in (listed.get("result") or {}).get("tools", [])
        ]
        return Offer(
            base,
            path,
            str(names[0] if names else about.get("name", name)),
            str(about.get("description") or ""),
            schema["action"],
            tuple(tools),
            splits,
            digests,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"{base} does not describe itself as OpenEnv's servers do: {error!r}") from error


async def _request(session: ClientSession, url: str, seconds: float, body: Data | None) -> Any:
    """The JSON of an answer; None where the server has no such page.

    Raises:
        EnvUnavailable, EnvTimeout: there is no server, or no answer in time.
        ProtocolError: the answer is no JSON, or the request is refused.
    """
    method = "GET" if body is None else "POST"
    status, answer = await http.request(session, method, url, seconds, body)
    if status in (404, 405, 501):
        return None
    if status >= 300:
        raise (EnvUnavailable if status >= 500 else ProtocolError)(f"{method} {url}: status {status}")
    try:
        return json.loads(answer)
    except ValueError as error:
        raise ProtocolError(f"{method} {url}: the answer is no JSON: {error}") from error


class Socket:
    """A session on a server: a socket, over which one request follows the other."""

    def __init__(self, base: str, session: ClientSession, socket: ClientWebSocketResponse, timeout: float) -> None:
        self._base, self._session, self._socket, self._timeout = base, session, socket, timeout
        self._heard: asyncio.Queue[WSMessage] = asyncio.Queue(maxsize=1)
        """What the server has said and no request has read; at the end that the socket is closed."""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def open(cls, base: str, token: str | None, timeout: float) -> Socket:
        """Open a session; ``timeout`` is the most seconds for a request.

        Raises:
            EnvUnavailable, EnvTimeout: there is no server at the URL.
        """
        session = http.session(token)
        try:
            async with asyncio.timeout(min(timeout, CONNECT_S)):
                socket = await session.ws_connect(f"{base}/ws", max_msg_size=MAX_ANSWER_BYTES)
        except TimeoutError as error:
            await session.close()
            raise EnvTimeout(f"{base}/ws: no connection within {min(timeout, CONNECT_S):g} s") from error
        except (ClientError, OSError) as error:
            await session.close()
            raise EnvUnavailable(f"{base}/ws: {error}") from error
        except BaseException:  # also a cancelled caller
            await session.close()
            raise
        return cls(base, session, socket, timeout)

    async def request(self, kind: str, data: Data | None = None) -> dict[str, Any]:
        """The data of the answer. After an error other than Invalid the session cannot be used any more.

        Raises:
            Invalid: the server refuses the data as malformed.
            TaskNotFound: one of our servers has no such task.
            Absent: the server is gone or full.
            EnvUnavailable: it has lost the session, or cannot open one.
            EnvTimeout: no answer in time.
            EnvFault: the environment failed.
            ProtocolError: the answer is none.
        """
        what = f"{kind} at {self._base}/ws"
        try:
            async with asyncio.timeout(self._timeout):
                # A server that refuses a session says why and closes; so its word is read even if nothing can be sent.
                with suppress(ClientError, OSError):
                    await self._socket.send_json({"type": kind} if data is None else {"type": kind, "data": data})
                message = await self._heard.get()
        except TimeoutError as error:
            raise EnvTimeout(f"{what}: no answer within {self._timeout:g} s") from error
        if message.type is not WSMsgType.TEXT:
            self._heard.put_nowait(message)  # nothing follows it: so every later request hears it, too
            raise Absent(f"{what}: the server closed the socket ({message.type.name}, {message.data})")
        try:
            answer = json.loads(message.data)
            sort, content = answer["type"], answer["data"]
            reason = encodable(str(content["message"])[:1000]) if sort == "error" else ""
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise ProtocolError(f"{what}: no message of OpenEnv: {str(message.data)[:200]!r}") from error
        if sort == "error":
            raise _error(content.get("code"), content.get("type"), what, reason)
        if not isinstance(content, dict):
            raise ProtocolError(f"{what}: the answer has no data: {str(message.data)[:200]!r}")
        return content

    async def close(self) -> None:
        """Close the session, and wait a moment until the server has: only then it has room for the next."""
        try:
            async with asyncio.timeout(PROBE_S):
                self._listening.cancel()  # what follows is received here
                await asyncio.wait([self._listening])
                if not self._socket.closed:
                    await self._socket.send_json({"type": "close"})
                    while not self._socket.closed:
                        await self._socket.receive()
        except (TimeoutError, ClientError, OSError):
            return  # the server ends a session whose socket is gone
        finally:
            await self._socket.close()
            await self._session.close()

    async def _listen(self) -> None:
        """Receive until the socket is closed, also between requests: only then the server's pings are answered."""
        message: WSMessage | None = None
        while message is None or message.type is WSMsgType.TEXT:
            try:
                message = await self._socket.receive()
            except (ClientError, OSError) as error:  # from the answer to a ping
                message = WSMessage(WSMsgType.ERROR, error, None)
            await self._heard.put(message)


def _error(code: object, kind: object, what: str, reason: str) -> EnvError:
    """The error that the answer to a request reports; ``kind`` is its type, which our own servers name."""
    message = f"{what}: {reason}"
    if kind == TaskNotFound.__name__:
        return TaskNotFound(message)
    if kind == EnvTimeout.__name__:
        return EnvTimeout(message)
    match code:
        case Code.VALIDATION_ERROR:
            return Invalid(message, reason)
        case Code.EXECUTION_ERROR:
            return EnvFault(message)
        case Code.CAPACITY_REACHED:
            return Absent(message)
        case Code.FACTORY_ERROR | Code.SESSION_ERROR:
            return EnvUnavailable(message)
    return ProtocolError(message)
