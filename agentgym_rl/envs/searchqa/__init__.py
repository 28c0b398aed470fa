"""SearchQA: answer questions with a search engine."""

from agentgym_rl.envs.searchqa.env import SearchQA

__all__ = ["SearchQA"]
