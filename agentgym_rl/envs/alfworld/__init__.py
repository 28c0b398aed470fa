"""ALFWorld: tasks of a household, in games built in and in ALFWorld's own."""

from agentgym_rl.envs.alfworld.env import ALFWorld

__all__ = ["ALFWorld"]
