"""Maze: find the way to a goal while seeing only the walls next to you."""

from agentgym_rl.envs.maze.env import Maze

__all__ = ["Maze"]
