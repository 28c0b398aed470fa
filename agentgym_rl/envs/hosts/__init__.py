"""Where environments run: in this process, in worker processes, in Ray actors, or on HTTP servers."""

from __future__ import annotations

from agentgym_rl.envs.core import MissingExtra
from agentgym_rl.envs.hosts.host import EnvHost, EnvProxy, LocalHost
from agentgym_rl.envs.hosts.settings import HostSettings

__all__ = ["EnvHost", "EnvProxy", "HostSettings", "LocalHost", "open_host"]


def open_host(settings: HostSettings) -> EnvHost:
    """The host of these settings. Nothing is started before its first session is reset.

    Raises:
        MissingExtra: the host needs a package that is not installed.
    """
    try:
        match settings.kind:
            case "local":
                return LocalHost()
            case "process":
                from agentgym_rl.envs.hosts.process import ProcessHost

                return ProcessHost(settings)
            case "ray":
                from agentgym_rl.envs.hosts.ray import RayHost

                return RayHost(settings)
            case "remote":
                from agentgym_rl.envs.hosts.remote import RemoteHost

                return RemoteHost(settings)
    except ModuleNotFoundError as error:
        needed = {
            "ray": "needs Ray, which comes with the engine; see docs/engine.md",
            "aiohttp": "needs aiohttp; install it with: pip install 'agentgym-rl[remote]'",
        }
        if error.name not in needed:
            raise
        raise MissingExtra(f"host.kind={settings.kind} {needed[error.name]}") from error
