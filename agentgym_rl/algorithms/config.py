"""The keys of algorithms, under ``algorithm``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from agentgym_rl.algorithms.checks import above, at_least
from agentgym_rl.algorithms.correction import CorrectionConfig
from agentgym_rl.algorithms.groups import GroupsConfig
from agentgym_rl.algorithms.losses import losses
from agentgym_rl.algorithms.losses.base import LossConfig
from agentgym_rl.algorithms.losses.vanilla import VanillaConfig
from agentgym_rl.algorithms.optimizer import OptimizerConfig
from agentgym_rl.algorithms.shaping import ShapingConfig

T = TypeVar("T")


def operational(default: T) -> T:
    """A field that does not change what is learned: a run resumes with another value of it."""
    setting: T = field(default=default, metadata={"operational": True})
    return setting


@dataclass(kw_only=True)
class AlgorithmConfig:
    """Keys of an algorithm under ``algorithm``. A subclass raises ValueError for a value that cannot work."""

    name: str = ""
    """Its word in a recipe: the name of its entry point."""

    @property
    def online(self) -> OnlineConfig | None:
        """The keys of its training episodes; None for an algorithm that has none."""
        return None

    @property
    def policy_gradient(self) -> PolicyGradientConfig | None:
        """The keys of its policy updates; None for an algorithm that has none."""
        return None

    @property
    def updates(self) -> OptimizerConfig:
        """The settings of its updates."""
        return OptimizerConfig()

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why; to set one is an error.

        Args:
            off_policy: whether the probabilities that learn are not those that sampled.
            environments: how many have training tasks.
        """
        return {}


@dataclass(kw_only=True)
class OnlineConfig(AlgorithmConfig):
    """Keys of every algorithm that learns from its own episodes."""

    steps: int = operational(10)
    """Training steps; for an algorithm in rounds, rounds."""
    tasks_per_step: int = 32
    """Tasks of a step."""
    samples_per_task: int = 8
    """Episodes of a task; their mean where the mixture shares them out unequally."""
    lr: float = 1e-6
    """Learning rate."""
    epochs: int = 1
    """Passes over what a step learns from."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """Schedule of the learning rate, and AdamW's settings."""

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"steps must not be negative, got {self.steps}")
        at_least(self, 1, "tasks_per_step", "samples_per_task", "epochs")
        above(self, 0, "lr")

    @property
    def online(self) -> OnlineConfig:
        return self

    @property
    def updates(self) -> OptimizerConfig:
        return self.optimizer

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        return within("optimizer", self.optimizer.unused())


def within(block: str, unused: Mapping[str, str]) -> dict[str, str]:
    """The unused keys of a block, named from above."""
    return {f"{block}.{key}": why for key, why in unused.items()}


@dataclass(kw_only=True)
class PolicyGradientConfig(OnlineConfig):
    """Keys of every policy gradient."""

    mini_batch_tasks: int = 32
    """Tasks of an update, each with all its episodes. A batch that does not divide by it, or lost tasks, makes the
    nearest number of updates, with more or fewer tasks each."""
    loss: LossConfig = field(default_factory=VanillaConfig, metadata={"kinds": losses})
    """The loss of a token, with its own keys; see :mod:`agentgym_rl.algorithms.losses`."""
    shaping: ShapingConfig = field(default_factory=ShapingConfig)
    """How rewards are changed before learning; see :mod:`agentgym_rl.algorithms.shaping`."""
    correction: CorrectionConfig = field(default_factory=CorrectionConfig)
    """Correction for rollouts of another policy; see :mod:`agentgym_rl.algorithms.correction`."""
    observation_weight: float = 0.0
    """Weight of a cross-entropy loss on observations beside the policy loss, so that failures teach what actions lead
    to (after ECHO, arXiv 2605.24517). Both are divided by the number of response tokens; ECHO divides its own by that
    of observation tokens."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "mini_batch_tasks")
        at_least(self, 0, "observation_weight")

    @property
    def policy_gradient(self) -> PolicyGradientConfig:
        return self

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        return {
            **super().unused(off_policy=off_policy, environments=environments),
            **within("loss", self.loss.unused()),
            **within("shaping", self.shaping.unused()),
            **within("correction", self.correction.unused(off_policy=off_policy)),
        }


@dataclass(kw_only=True)
class GroupConfig(PolicyGradientConfig):
    """Keys of every algorithm that compares the episodes of a task."""

    groups: GroupsConfig = field(default_factory=GroupsConfig)
    """Which groups are learned from, and how; see :class:`GroupsConfig`."""

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        reasons = super().unused(off_policy=off_policy, environments=environments)
        return {**reasons, **within("groups", self.groups.unused())}
