"""ScienceWorld: elementary-school science done by hand, in a house of ten rooms."""

from agentgym_rl.envs.sciworld.env import SciWorld

__all__ = ["SciWorld"]
