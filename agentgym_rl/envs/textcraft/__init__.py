"""TextCraft, a crafting world."""

from agentgym_rl.envs.textcraft.env import TextCraft

__all__ = ["TextCraft"]
