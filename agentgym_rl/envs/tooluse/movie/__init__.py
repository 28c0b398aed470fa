"""Movie: questions about films and people, answered by calls of a film database."""

from agentgym_rl.envs.tooluse.movie.env import Movie

__all__ = ["Movie"]
