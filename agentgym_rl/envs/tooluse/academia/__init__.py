"""Academia: questions about papers and authors, answered by walks over two graphs."""

from agentgym_rl.envs.tooluse.academia.env import Academia

__all__ = ["Academia"]
