"""Rounds of equal length, as published."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_rl.algorithms.curriculum.rounds import RoundsConfig
from agentgym_rl.algorithms.curriculum.turn_limit import TurnLimit


@dataclass(kw_only=True)
class StepwiseConfig(RoundsConfig):
    """Keys of ``curriculum=stepwise``."""

    steps: int = 100
    """Training steps a round; for an algorithm in rounds, its rounds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1:
            raise ValueError(f"curriculum.steps={self.steps} must be at least 1")


class Stepwise(TurnLimit[StepwiseConfig]):
    """The next round every ``steps`` steps."""

    Config = StepwiseConfig

    def max_turns(self, step: int) -> int:
        rounds = self.config.rounds
        return rounds[min((step - 1) // self.config.steps, len(rounds) - 1)]
