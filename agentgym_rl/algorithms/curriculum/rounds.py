"""The keys of curricula in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentgym_rl.algorithms.curriculum.turn_limit import CurriculumConfig


def check_rounds(rounds: Sequence[int]) -> None:
    if any(turns < 1 for turns in rounds):
        raise ValueError(f"curriculum.rounds={list(rounds)} must be turn limits of at least 1")


@dataclass(kw_only=True)
class RoundsConfig(CurriculumConfig):
    """Keys of a curriculum in rounds."""

    rounds: list[int] = field(default_factory=lambda: [10, 20, 30])
    """Turn limits, one a round; by default those published for TextCraft."""

    def __post_init__(self) -> None:
        check_rounds(self.rounds)
        if len(self.rounds) < 2:
            raise ValueError(f"curriculum.rounds={list(self.rounds)} must hold two or more for curriculum={self.type}")
