"""Where environments run: in this process, in worker processes, in Ray actors, or on servers."""

from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.hosts.host import EnvHost, EnvProxy, LocalHost
from agentgym_rl.envs.hosts.settings import HostSettings

__all__ = ["EnvHost", "EnvProxy", "HostSettings", "LocalHost", "open_host"]


def open_host(settings: HostSettings) -> EnvHost:
    """The host of these settings. Nothing is started before its first session is reset.

    Raises:
        MissingExtra: the host needs a package that is not installed.
    """
    match settings.kind:
        case "local":
            return LocalHost()
        case "process":
            from agentgym_rl.envs.hosts.process import ProcessHost

            return ProcessHost(settings)
        case "ray":
            with needs("host.kind=ray", "cpu"):
                from agentgym_rl.envs.hosts.ray import RayHost
            return RayHost(settings)
        case "remote" if settings.openenv:
            with needs("host.kind=remote", "remote"):
                from agentgym_rl.envs.hosts.openenv import OpenEnvHost
            return OpenEnvHost(settings)
        case "remote":
            with needs("host.kind=remote", "remote"):
                from agentgym_rl.envs.hosts.remote import RemoteHost
            return RemoteHost(settings)
