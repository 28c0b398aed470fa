"""The gateway as a server in this process's event loop, beside what runs the episodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import uvicorn

from agentgym_rl.envs.protocol.server.run import allow_files, config_of, is_loopback, listen
from agentgym_rl.rollout.gateway.app import BODY, Open, create_app
from agentgym_rl.rollout.gateway.chat import Chat
from agentgym_rl.rollout.gateway.session import Limits, Session, Sessions

log = logging.getLogger(__name__)

KEEP_ALIVE = 120
"""Seconds that a connection may idle; longer than clients keep one, which would otherwise send into one that closes."""


class _Server(uvicorn.Server):
    """Leaves signals to the program that it is part of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Gateway:
    """An asynchronous context manager: the server is up within it.

    Args:
        host: address to listen on; whoever reaches it still needs a session's key.
        port: 0 takes a free one.
        sessions: which are open, and how many may be.
        opens: opens sessions over HTTP; see :func:`.app.create_app`.

    Raises:
        ValueError: the address cannot be used.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, sessions: Sessions | None = None, opens: Open | None = None
    ) -> None:
        self.sessions = Sessions() if sessions is None else sessions
        self._listening = listen(host, port)
        if not is_loopback(host):
            log.warning("the gateway listens on %s: keys of sessions travel unencrypted", host)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._listening.getsockname()[1]}"
        config = config_of(create_app(self.sessions, opens), BODY)
        config.timeout_keep_alive = KEEP_ALIVE
        self._server = _Server(config)

    async def __aenter__(self) -> Gateway:
        allow_files()
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._listening]))
        while not self._server.started:
            if self._serving.done():
                await self._serving
                raise RuntimeError("the gateway's server ended while it started; its log says why")
            await asyncio.sleep(0.01)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End the server."""
        self._server.should_exit = True
        await self._serving

    async def ended(self) -> None:
        """Returns when the server has ended."""
        await asyncio.shield(self._serving)

    @property
    def serving(self) -> bool:
        """Whether the server is up."""
        return self._server.started and not self._serving.done()

    def open(self, chat: Chat, limits: Limits) -> Session:
        """A new session; see :meth:`.session.Sessions.open`."""
        return self.sessions.open(chat, limits)

    def close(self, session: Session) -> None:
        """End a session."""
        self.sessions.close(session)

    def address(self, session: Session, with_key: bool = False) -> str:
        """The address of a session, below which its routes are.

        Args:
            with_key: the key is part of it.
        """
        return f"{self.url}/sessions/{session.id}" + (f"/key/{session.key}" if with_key else "")
