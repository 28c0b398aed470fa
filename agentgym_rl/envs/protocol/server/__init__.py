"""The server of AgentGym's HTTP protocol. Needs the extra ``serve``."""

from agentgym_rl.envs.protocol.server.app import create_app
from agentgym_rl.envs.protocol.server.run import serve
from agentgym_rl.envs.protocol.server.settings import Settings

__all__ = ["Settings", "create_app", "serve"]
