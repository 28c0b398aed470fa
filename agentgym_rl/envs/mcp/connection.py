"""Connections to MCP servers, through the official client library (extra ``mcp``)."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import IO, Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import INTERNAL_ERROR, REQUEST_TIMEOUT, CallToolResult, TextContent

from agentgym_rl.envs.bounds import cut
from agentgym_rl.envs.core import EnvError, EnvFault, EnvTimeout, EnvUnavailable
from agentgym_rl.envs.tools import Tool, tool_of

log = logging.getLogger(__name__)

CLOSE_S = 10.0
"""Most seconds for closing a connection; the library ends a process that does not end itself within 4 s."""
TAIL = 300
"""Characters of what a server wrote to standard error that an error repeats."""
AGENTS_FAULT = (-32601, -32602)
"""Codes of errors about a call that the server does not know or cannot read."""


@dataclass(frozen=True)
class Server:
    """How a server is reached."""

    command: str
    """A command line, which starts a process for each session, or the URL of a server (streamable HTTP)."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables of the process, beside ``PATH``, ``HOME`` and the like."""
    folder: str | None = None
    """Working folder of the process."""
    timeout: float = 30.0
    """Most seconds for one call."""
    start_timeout: float = 60.0
    """Most seconds until the server has started, and for it to list its tools."""

    def __post_init__(self) -> None:
        if not self.command.strip():
            raise ValueError("server is empty; give a command line or a URL")
        if self.is_url and (self.variables or self.folder is not None):
            raise ValueError(f"variables and folder are for a server's process, which {self.command} has none of here")
        for name in ("timeout", "start_timeout"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name):g}; give more than 0")

    @property
    def is_url(self) -> bool:
        return self.command.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True)
class Result:
    """What a call of a tool gave."""

    text: str
    value: Any
    """As JSON where the tool gave JSON, else the text."""
    failed: bool
    """The tool says that it failed, or the server that it cannot be called so."""


class Connection:
    """A session on a server: with a command, a process of its own; with a URL, an ``Mcp-Session-Id`` of its own.

    The library wants a connection to be closed by the task that opened it; so one task holds it.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._closing = asyncio.Event()
        self._said: IO[str] | None = None
        """What the server writes to standard error."""
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._holding = asyncio.create_task(self._hold())

    @classmethod
    async def open(cls, server: Server) -> Connection:
        """Start the server, or reach it.

        Raises:
            EnvUnavailable: it does not start, cannot be reached, or is no MCP server.
            EnvTimeout: it takes longer than ``start_timeout``.
        """
        connection = cls(server)
        try:
            async with asyncio.timeout(server.start_timeout):
                await asyncio.shield(connection._opened)
        except TimeoutError as error:
            raise connection._ended(EnvTimeout, f"did not answer within {server.start_timeout:g} s") from error
        finally:
            if not connection._opened.done() or connection._opened.cancelled() or connection._opened.exception():
                await connection.close()
        return connection

    async def tools(self) -> tuple[Tool, ...]:
        """The tools of the server, with their schemas as they are.

        Raises:
            EnvUnavailable, EnvFault: the server fails.
            EnvTimeout: it takes longer than ``start_timeout``, or ``timeout`` for a page of the list.
            ValueError: a schema is none.
        """
        seconds = self._server.start_timeout
        try:
            async with asyncio.timeout(seconds):
                return await self._pages()
        except TimeoutError as error:
            raise self._ended(EnvTimeout, f"tools/list: has not told all tools within {seconds:g} s") from error

    async def _pages(self) -> tuple[Tool, ...]:
        """The tools of all pages of the server's list; an empty cursor ends it as none does."""
        client, tools, cursor = self._opened.result(), [], None
        seen: set[str | None] = set()
        while cursor not in seen:
            seen.add(cursor)
            listed = await self._ask(client.list_tools(cursor=cursor), "tools/list")
            tools += [tool_of(tool.name, tool.description or "", tool.input_schema) for tool in listed.tools]
            cursor = listed.next_cursor
            if not cursor:
                return tuple(tools)
        raise self._ended(
            EnvFault, f"tools/list: the list begins anew: its cursor {cut(str(cursor), 80)!r} came before"
        )

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Result:
        """Call a tool.

        Raises:
            EnvUnavailable: the server has ended.
            EnvTimeout: no answer in time.
            EnvFault: the server reports an error of its own.
        """
        client = self._opened.result()
        try:
            found = await self._ask(client.call_tool(name, dict(arguments)), name)
        except MCPError as error:
            return Result(str(error), str(error), failed=True)
        return _read(found)

    async def close(self) -> None:
        """End the session, and the server's process. May be called twice."""
        if not self._opened.done():
            self._holding.cancel()
        self._closing.set()
        await asyncio.wait([self._holding], timeout=CLOSE_S)
        self._holding.cancel()

    async def _hold(self) -> None:
        with tempfile.TemporaryFile("w+", errors="replace") as self._said:
            try:
                mode = "legacy" if self._server.is_url else "auto"  # over HTTP only the handshake opens a session
                target, timeout = self._target(), self._server.timeout
                async with Client(target, read_timeout_seconds=timeout, cache=None, mode=mode) as client:
                    self._opened.set_result(client)
                    await self._closing.wait()
            except Exception as error:  # noqa: BLE001 - whatever the library and the start raise
                fault = self._ended(EnvUnavailable, f"does not start or end as it should: {_first(error)}")
                if self._opened.done():
                    log.warning("%s", fault)
                else:
                    self._opened.set_exception(fault)
            finally:
                if not self._opened.done():
                    self._opened.cancel()
                elif not self._opened.cancelled():
                    self._opened.exception()  # nobody may be left to ask

    def _target(self) -> Any:
        server = self._server
        if server.is_url:
            return server.command
        command, *arguments = shlex.split(server.command)
        parameters = StdioServerParameters(
            command=command, args=arguments, env=dict(server.variables), cwd=server.folder
        )
        assert self._said is not None
        return stdio_client(parameters, errlog=self._said)  # type: ignore[arg-type]

    async def _ask(self, call: Any, what: str) -> Any:
        """The answer to a request. Raises MCPError: the request is one that the server does not know or cannot read."""
        try:
            async with asyncio.timeout(self._server.timeout + 1):
                return await call
        except TimeoutError as error:
            raise self._ended(EnvTimeout, f"{what}: no answer within {self._server.timeout:g} s") from error
        except MCPError as error:
            if error.code in AGENTS_FAULT:
                raise
            if error.code == REQUEST_TIMEOUT:
                raise self._ended(EnvTimeout, f"{what}: no answer within {self._server.timeout:g} s") from error
            kind = EnvFault if error.code == INTERNAL_ERROR else EnvUnavailable
            raise self._ended(kind, f"{what}: {error}") from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError) as error:
            raise self._ended(EnvUnavailable, f"{what}: the server has ended") from error
        except Exception as error:  # an answer that is none: the library raises what its parsers do
            raise self._ended(EnvFault, f"{what}: {type(error).__name__}: {error}") from error

    def _ended(self, kind: type[EnvError], what: str) -> EnvError:
        """An error about the server, with the end of what it wrote to standard error if it has ended."""
        said = ""
        if kind is EnvUnavailable and self._said is not None and not self._said.closed:
            self._said.seek(0)
            said = " ".join(self._said.read().split())[-TAIL:]
        return kind(f"MCP server {cut(self._server.command, 200)!r} {what}{f' (it wrote: {said})' if said else ''}")


@cache
def offered(server: Server) -> tuple[Tool, ...]:
    """The tools of a server, which is asked once in a process; blocks, also where an event loop runs.

    Raises:
        EnvUnavailable, EnvTimeout, EnvFault: the server does not start or fails.
        ValueError: a schema is none.
    """

    async def ask() -> tuple[Tool, ...]:
        connection = await Connection.open(server)
        try:
            return await connection.tools()
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, ask()).result()


def _read(answer: CallToolResult) -> Result:
    parts = [block.text if isinstance(block, TextContent) else f"[{block.type}]" for block in answer.content]
    value = answer.structured_content
    text = "\n".join(parts) if parts else "" if value is None else json.dumps(value, ensure_ascii=False)
    if value is None:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
    elif isinstance(value, dict) and value.keys() == {"result"}:  # how servers wrap what is no object
        value = value["result"]
    return Result(text, value, answer.is_error)


def _first(error: BaseException) -> str:
    """The first fault in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
