"""One turn limit."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym_rl.algorithms.curriculum.rounds import check_rounds
from agentgym_rl.algorithms.curriculum.turn_limit import CurriculumConfig, TurnLimit


@dataclass(kw_only=True)
class FixedConfig(CurriculumConfig):
    """Keys of ``curriculum=fixed``."""

    rounds: list[int] = field(default_factory=list)
    """One turn limit; empty takes the environment's own."""

    def __post_init__(self) -> None:
        check_rounds(self.rounds)
        if len(self.rounds) > 1:
            raise ValueError(
                f"curriculum.rounds={list(self.rounds)}: a fixed turn limit is one number; see curriculum=stepwise"
            )


class Fixed(TurnLimit[FixedConfig]):
    """The same turn limit at every step."""

    Config = FixedConfig

    def max_turns(self, step: int) -> int | None:
        return next(iter(self.config.rounds), None)
