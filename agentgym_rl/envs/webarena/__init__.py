"""WebArena: tasks on websites, through a browser. It runs on AgentGym's server."""

from agentgym_rl.envs.webarena.env import WebArena

__all__ = ["WebArena"]
