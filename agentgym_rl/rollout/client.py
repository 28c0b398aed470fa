"""verl's client of the LLM servers, asking the load balancer once an episode."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from verl.workers.rollout.llm_server import LLMServerClient


def _plain(config: Any) -> SimpleNamespace:
    """The two values that ``LLMServerClient.generate`` reads every turn, out of OmegaConf, which takes its time."""
    rollout = config.actor_rollout_ref.rollout
    kept = SimpleNamespace(name=rollout.name, full_determinism=getattr(rollout, "full_determinism", False))
    return SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=kept))


class EpisodeClient(LLMServerClient):  # type: ignore[misc]
    """Holds the server of an episode from its first turn until :meth:`leave`.

    verl's client acquires and releases a server every turn, two calls of the balancer's one process, although the
    balancer always names the same server for one request id. Here the balancer counts episodes in flight, not requests.
    Only for servers that stay: where they come and go, a server that is held may be gone.
    """

    def __init__(self, config: Any, *arguments: Any, **named: Any) -> None:
        super().__init__(_plain(config), *arguments, **named)
        self._held: dict[str, tuple[str, Any]] = {}

    async def _acquire_server(self, request_id: str, **extra: Any) -> tuple[str, Any]:
        if request_id not in self._held:
            self._held[request_id] = await super()._acquire_server(request_id, **extra)
        return self._held[request_id]

    def _release_server(self, server_id: str, request_id: str | None = None) -> None:
        """Nothing: the episode goes on."""

    def leave(self, request_id: str) -> None:
        """The episode is over."""
        if held := self._held.pop(request_id, None):
            super()._release_server(held[0], request_id)
