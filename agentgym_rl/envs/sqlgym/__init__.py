"""SQLGym: answer questions about a database with one SQL query."""

from agentgym_rl.envs.sqlgym.env import SQLGym

__all__ = ["SQLGym"]
