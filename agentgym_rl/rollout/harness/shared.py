"""One gateway for all episodes of an event loop."""

from __future__ import annotations

import asyncio
from math import inf

from agentgym_rl.envs.hosts.host import PerLoop
from agentgym_rl.rollout.gateway.server import Gateway
from agentgym_rl.rollout.gateway.session import Sessions


class SharedGateway:
    """A gateway that starts with the first episode, and is replaced where its server has ended.

    Its sessions end with their episodes (``rollout.episode_seconds``), however long a program asks nothing.
    """

    def __init__(self) -> None:
        self._gateway: Gateway | None = None
        self._starting = PerLoop(asyncio.Lock)

    async def opened(self) -> Gateway:
        """The gateway, up."""
        async with self._starting.get():
            if self._gateway is None or not self._gateway.serving:
                self._gateway = await Gateway(sessions=Sessions(ttl=inf)).__aenter__()
            return self._gateway

    async def close(self) -> None:
        """End it; a further episode starts another one."""
        async with self._starting.get():
            if self._gateway is not None:
                await self._gateway.__aexit__(None, None, None)
                self._gateway = None
