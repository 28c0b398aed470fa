"""Interpolation between rounds."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym_rl.algorithms.curriculum.stepwise import StepwiseConfig
from agentgym_rl.algorithms.curriculum.turn_limit import TurnLimit


@dataclass(kw_only=True)
class LinearConfig(StepwiseConfig):
    """Keys of ``curriculum=linear``."""

    rounds: list[int] = field(default_factory=lambda: [10, 30])
    """Turn limits; each is reached ``steps`` steps after the one before."""
    steps: int = 200
    """Training steps from one of the rounds to the next."""


class Linear(TurnLimit[LinearConfig]):
    """A little more at every step."""

    Config = LinearConfig

    def max_turns(self, step: int) -> int:
        rounds, steps = self.config.rounds, self.config.steps
        index, rest = divmod(step - 1, steps)
        if index >= len(rounds) - 1:
            return rounds[-1]
        return rounds[index] + (rounds[index + 1] - rounds[index]) * rest // steps
