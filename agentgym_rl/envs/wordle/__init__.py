"""Wordle: find a hidden word of five letters by the marks on your guesses."""

from agentgym_rl.envs.wordle.env import Wordle

__all__ = ["Wordle"]
