"""verl's client of the LLM servers, with one choice of server per episode."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from zlib import crc32

from verl.workers.rollout.llm_server import LLMServerClient


def _plain(config: Any) -> SimpleNamespace:
    """The two values that ``LLMServerClient.generate`` reads every turn, out of OmegaConf, which is slow."""
    rollout = config.actor_rollout_ref.rollout
    values = SimpleNamespace(name=rollout.name, full_determinism=rollout.full_determinism)
    return SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=values))


class EpisodeClient(LLMServerClient):  # type: ignore[misc]
    """Holds the server of an episode from its first turn until :meth:`leave`.

    An episode begins on the server with the fewest episodes of this process. verl's client acquires and releases a
    server every turn, with two calls of one balancing process, which always names the same server for one request id.
    Only for servers that stay: where they come and go, a server that is held may be gone.
    """

    def __init__(self, config: Any, servers: Mapping[str, Any]) -> None:
        """
        Args:
            config: verl's whole configuration.
            servers: handles of the servers by address.
        """
        super().__init__(_plain(config))
        self._servers = dict(servers)
        self._running = dict.fromkeys(servers, 0)
        self._held: dict[str, str] = {}

    async def _acquire_server(self, request_id: str, **extra: Any) -> tuple[str, Any]:
        if request_id not in self._held:
            # ties are broken by the request, so that several processes do not all begin with the same server
            chosen = min(self._running, key=lambda name: (self._running[name], crc32(f"{request_id} {name}".encode())))
            self._held[request_id] = chosen
            self._running[chosen] += 1
        name = self._held[request_id]
        return name, self._servers[name]

    def _release_server(self, server_id: str, request_id: str | None = None) -> None:
        """Nothing: the episode goes on."""

    def leave(self, request_id: str) -> None:
        """The episode is over."""
        if (held := self._held.pop(request_id, None)) is not None:
            self._running[held] -= 1
