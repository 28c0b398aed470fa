"""Worlds behind HTTP, in AgentGym's protocol. Needs the extra ``serve``."""

from agentgym_rl.envs.server.app import create_app
from agentgym_rl.envs.server.run import serve
from agentgym_rl.envs.server.settings import Settings

__all__ = ["Settings", "create_app", "serve"]
