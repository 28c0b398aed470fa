"""Worlds behind HTTP, on servers that speak AgentGym's protocol. Needs the extra ``remote``."""

from agentgym_rl.envs.protocol.client.env import Remote

__all__ = ["Remote"]
