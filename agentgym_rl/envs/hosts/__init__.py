"""Where worlds run: in this process, in processes of this machine, or behind HTTP. Ray's actors are in ``rollout``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from agentgym_rl.envs.core import MissingExtra, TextEnv
from agentgym_rl.envs.hosts.opener import Local, Opener
from agentgym_rl.envs.hosts.process import Processes
from agentgym_rl.envs.hosts.settings import Host

__all__ = ["Host", "Local", "Opener", "Processes", "Remotes", "opener"]


class Remotes(Opener):
    """Opens sessions on servers that speak AgentGym's protocol."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def open(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        _needs_aiohttp()
        from agentgym_rl.envs.protocol.client import Remote

        host = self.host
        return Remote(
            name,
            host.addresses,
            timeout=host.timeout,
            patience=host.patience,
            sessions=host.sessions,
            token_env=host.token_env,
            **options,
        )

    async def check(self, name: str) -> None:
        """Open a session on each server, and close it."""
        _needs_aiohttp()
        from agentgym_rl.envs.protocol.client.leases import reach

        await reach(name, self.host)


def _needs_aiohttp() -> None:
    if find_spec("aiohttp") is None:
        raise MissingExtra("worlds behind HTTP need aiohttp; install it with: pip install 'agentgym-rl[remote]'")


def opener(host: Host) -> Opener:
    """What opens sessions at a host. Hosts of kind ``ray`` are opened by :func:`agentgym_rl.envs.hosts.ray.opener`.

    Raises:
        ValueError: the host is of another kind.
    """
    match host.kind:
        case "local":
            return Local()
        case "process":
            return Processes(host)
        case "remote":
            return Remotes(host)
    raise ValueError(f"host.kind={host.kind!r} needs Ray; open it with agentgym_rl.envs.hosts.ray.opener")
