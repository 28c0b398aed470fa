"""TextCraft: craft items by recipes."""

from agentgym_rl.envs.textcraft.env import TextCraft

__all__ = ["TextCraft"]
