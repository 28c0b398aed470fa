"""The policy's optimizer: AdamW (arXiv 1711.05101), with a learning rate that depends on the unit of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import cos, pi


class Schedule(StrEnum):
    """The learning rate after the warm-up."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


@dataclass(kw_only=True)
class OptimizerConfig:
    """Keys of ``algorithm.optimizer`` and ``cloning.optimizer``.

    The learning rate is the same throughout a unit: a training step, or a pass over the trajectories of cloning or of a
    round of AgentEvol. Each of these rounds has a schedule of its own.
    """

    schedule: Schedule = Schedule.CONSTANT
    """Learning rate after the warm-up: ``constant``, or a ``linear`` or ``cosine`` fall until the last unit."""
    min_lr_ratio: float = 0.1
    """Learning rate of the last unit as a share of ``lr``."""
    warmup_steps: int = 0
    """Units before the first with the full ``lr``; the learning rate rises linearly, and is never 0."""
    weight_decay: float = 0.0
    """AdamW's decoupled weight decay, of all weights."""
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])
    """Decay of the averages of gradients and of squared gradients."""
    clip_grad: float = 1.0
    """Greatest norm of the gradient of an update; ``inf`` clips none."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_lr_ratio <= 1:
            raise ValueError(f"optimizer.min_lr_ratio must be in [0, 1], got {self.min_lr_ratio}")
        for key in ("warmup_steps", "weight_decay"):
            if not getattr(self, key) >= 0:
                raise ValueError(f"optimizer.{key} must not be negative, got {getattr(self, key)}")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"optimizer.betas must be two numbers in [0, 1), got {list(self.betas)}")
        if not self.clip_grad > 0:
            raise ValueError(f"optimizer.clip_grad must be greater than 0, got {self.clip_grad}; inf clips none")

    def unused(self, block: str = "algorithm.optimizer") -> Mapping[str, str]:
        """Keys of the block that have no effect beside the others, and why."""
        constant = self.schedule is Schedule.CONSTANT
        return {"min_lr_ratio": f"{block}.schedule=constant does not fall"} if constant else {}

    def rate(self, peak: float, unit: int, units: int) -> float:
        """Learning rate of a unit, counted from 0, of ``units``."""
        if unit < self.warmup_steps:
            return peak * (unit + 1) / (self.warmup_steps + 1)
        falling = units - 1 - self.warmup_steps
        if self.schedule is Schedule.CONSTANT or falling < 1:
            return peak
        passed = (unit - self.warmup_steps) / falling
        fallen = passed if self.schedule is Schedule.LINEAR else (1 - cos(pi * passed)) / 2
        return peak * (1 - (1 - self.min_lr_ratio) * fallen)


@dataclass(kw_only=True)
class SupervisedOptimizerConfig(OptimizerConfig):
    """Keys of ``optimizer`` for passes over trajectories."""

    schedule: Schedule = Schedule.LINEAR
    """Learning rate after the warm-up: ``constant``, or a ``linear`` or ``cosine`` fall until the last pass."""
