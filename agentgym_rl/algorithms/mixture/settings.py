"""What a recipe says about the mixture."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import inf

TYPES = ("uniform", "proportional", "fixed", "dynamic")
VALUES = ("variance", "failure", "progress")
LEVELS = ("off", "task", "difficulty")


@dataclass(kw_only=True)
class MixtureSettings:
    """Raises ValueError when made with a value out of range; the message names the key."""

    type: str = "fixed"
    """Shares of the worlds: uniform | proportional (to the size of their pools) | fixed | dynamic."""
    value: str = "variance"
    """Dynamic: what a world is worth; variance p(1-p) | failure 1-p | progress (recent change of p)."""
    floor: float = 0.1
    """Least share of a world, as a part of the uniform share; least weight of a task, as a part of the greatest."""
    temperature: float = 1.0
    """Shares and weights follow value ** (1 / temperature): above 1 flatter, below 1 sharper."""
    decay: float = 0.9
    """What is left of a world's evidence after a step, and of a task's after a step that played it."""
    smoothing: float = 0.5
    """Dynamic: part of the last step's share that is kept."""
    tasks: str = "off"
    """Tasks of a world: off (all alike) | task (by the success of each) | difficulty (by that of its difficulty)."""
    min_samples: int = 1
    """Least episodes of a task in a step, where ``tasks`` is not off; 2 for group-relative algorithms."""
    max_samples: int | None = None
    """Most episodes of a task in a step, where ``tasks`` is not off; null sets no limit."""

    def __post_init__(self) -> None:
        for key, word, words in (
            ("type", self.type, TYPES),
            ("value", self.value, VALUES),
            ("tasks", self.tasks, LEVELS),
        ):
            if word not in words:
                raise ValueError(f"mixture.{key}={word!r} is unknown; choose {', '.join(words)}")
        if not 0 < self.floor <= 1:
            raise ValueError(f"mixture.floor={self.floor} must be above 0 and at most 1")
        if not 0 < self.temperature < inf:
            raise ValueError(f"mixture.temperature={self.temperature} must be above 0 and finite")
        if not 0 <= self.decay < 1:
            raise ValueError(f"mixture.decay={self.decay} must be at least 0 and below 1")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"mixture.smoothing={self.smoothing} must be at least 0 and below 1")
        if self.min_samples < 1:
            raise ValueError(f"mixture.min_samples={self.min_samples} must be at least 1")
        if self.max_samples is not None and self.max_samples < self.min_samples:
            raise ValueError(
                f"mixture.max_samples={self.max_samples} must be null or at least min_samples={self.min_samples}"
            )

    def bounds(self, samples: int) -> tuple[int, int]:
        """Least and most episodes of a task in a step that has ``samples`` a task on average.

        Raises:
            ValueError: ``samples`` is outside the limits, so that no allotment has this average.
        """
        if samples < 1:
            raise ValueError(f"algorithm.samples={samples} must be at least 1")
        if self.tasks == "off":
            return samples, samples
        if samples < self.min_samples:
            raise ValueError(f"mixture.min_samples={self.min_samples} is more than algorithm.samples={samples}")
        if self.max_samples is not None and samples > self.max_samples:
            raise ValueError(f"mixture.max_samples={self.max_samples} is less than algorithm.samples={samples}")
        return self.min_samples, sys.maxsize if self.max_samples is None else self.max_samples
