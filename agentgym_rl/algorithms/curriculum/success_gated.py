"""Rounds that success opens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentgym_rl.algorithms.curriculum.rounds import RoundsConfig
from agentgym_rl.algorithms.curriculum.turn_limit import TurnLimit


@dataclass(kw_only=True)
class SuccessGatedConfig(RoundsConfig):
    """Keys of ``curriculum=success_gated``."""

    threshold: float = 0.7
    """The next round begins when the success of a step reaches it."""
    patience: int = 20
    """The next round also begins when success has not risen for this many steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.threshold <= 1:
            raise ValueError(f"curriculum.threshold={self.threshold} must be above 0 and at most 1")
        if self.patience < 1:
            raise ValueError(f"curriculum.patience={self.patience} must be at least 1")


class SuccessGated(TurnLimit[SuccessGatedConfig]):
    """The next round when the present one is mastered, or when it stalls."""

    Config = SuccessGatedConfig

    def __init__(self, config: SuccessGatedConfig) -> None:
        super().__init__(config)
        self.round = 0
        self.best = 0.0
        """Greatest success of a step in the present round."""
        self.waited = 0
        """Steps since then."""

    def max_turns(self, step: int) -> int:
        return self.config.rounds[self.round]

    def observe(self, success: float) -> None:
        if self.round == len(self.config.rounds) - 1:
            return
        self.waited = 0 if success > self.best else self.waited + 1
        self.best = max(self.best, success)
        if success >= self.config.threshold or self.waited >= self.config.patience:
            self.round, self.best, self.waited = self.round + 1, 0.0, 0

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round, "best": self.best, "waited": self.waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.round, self.best, self.waited = int(state["round"]), float(state["best"]), int(state["waited"])
