"""Todo: ask about and change the projects and tasks of a to-do account."""

from agentgym_rl.envs.tooluse.todo.env import Todo

__all__ = ["Todo"]
