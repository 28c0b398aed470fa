r"""ScalingInter (arXiv 2509.08755, section 4): the turn limit of training episodes grows with training.

With rounds :math:`h_0, h_1, ...` and S steps a round, the turn limit at step t (from 1) is

* ``fixed``: :math:`h_0`, or that of the environment;
* ``stepwise``: :math:`h_k` with :math:`k = \min(\lfloor (t-1) / S \rfloor, \mathrm{last})`, as published;
* ``linear``: interpolated between the rounds, :math:`h_k` at :math:`t = 1 + kS`, rounded down;
* ``success_gated``: the next round when success at the present one passes a threshold, or has not risen for a while.

The first three are functions of the step alone, so a run that resumes at any step has the turn limit it would have had
(AgentGym-RL counts from the resumed step and skips a round). The gate is our own; its state is checkpointed.

A curriculum of one's own is a :class:`TurnLimit` and an entry point in the group ``agentgym_rl.curricula``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from agentgym_rl.algorithms.installed import installed
from agentgym_rl.data.episode import Episode


@dataclass(kw_only=True)
class CurriculumConfig:
    """Keys of a curriculum under ``curriculum``. A subclass raises ValueError for a value that cannot work."""

    type: str = ""
    """Its word in a recipe: the name of its entry point."""


C = TypeVar("C", bound=CurriculumConfig)


class TurnLimit(ABC, Generic[C]):
    """The turn limit of the training episodes of one environment."""

    Config: ClassVar[type[CurriculumConfig]] = CurriculumConfig

    def __init__(self, config: C) -> None:
        self.config = config

    @abstractmethod
    def max_turns(self, step: int) -> int | None:
        """Turn limit of a training step, counted from 1; None takes the environment's own."""

    def observe(self, success: float) -> None:
        """Take in the mean success of a step's episodes, in [0, 1]."""

    def metrics(self) -> dict[str, float]:
        """Logged as ``env/<name>/<key>``."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs; JSON types."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state_dict`."""
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, got {', '.join(sorted(state))}")


def curricula() -> Mapping[str, type[TurnLimit[Any]]]:
    """The classes of all installed curricula by name: the entry-point group ``agentgym_rl.curricula``."""
    return installed("agentgym_rl.curricula", TurnLimit)


class Curriculum:
    """The turn limits of a run's training episodes."""

    def __init__(self, limits: Mapping[str, TurnLimit[Any]]) -> None:
        """
        Args:
            limits: by environment.
        """
        self.limits = dict(limits)

    def max_turns(self, env: str, step: int) -> int | None:
        """See :meth:`TurnLimit.max_turns`.

        Raises:
            ValueError: the step is less than 1.
        """
        if step < 1:
            raise ValueError(f"step is {step}; training steps count from 1")
        return self.limits[env].max_turns(step)

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Take in a step's episodes; those that do not count, or began with a replay, are ignored."""
        for env, limit in self.limits.items():
            own = [one.success for one in episodes if one.env == env and one.ending.counts and not one.prefix_turns]
            if own:
                limit.observe(sum(own) / len(own))

    def metrics(self) -> dict[str, float]:
        return {f"env/{env}/{key}": value for env, one in self.limits.items() for key, value in one.metrics().items()}

    def state_dict(self) -> dict[str, Any]:
        """JSON types."""
        return {env: limit.state_dict() for env, limit in self.limits.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state_dict`."""
        for env, limit in self.limits.items():
            limit.load_state_dict(state[env])


# the curricula


def check_rounds(rounds: Sequence[int]) -> None:
    if any(turns < 1 for turns in rounds):
        raise ValueError(f"curriculum.rounds={list(rounds)} must be turn limits of at least 1")


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


@dataclass(kw_only=True)
class RoundsConfig(CurriculumConfig):
    """Keys of a curriculum in rounds."""

    rounds: list[int] = field(default_factory=lambda: [10, 20, 30])
    """Turn limits, one a round; by default those published for TextCraft."""

    def __post_init__(self) -> None:
        check_rounds(self.rounds)
        if len(self.rounds) < 2:
            raise ValueError(f"curriculum.rounds={list(self.rounds)} must hold two or more for curriculum={self.type}")


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
        whole, rest = divmod(step - 1, steps)
        if whole >= len(rounds) - 1:
            return rounds[-1]
        return rounds[whole] + (rounds[whole + 1] - rounds[whole]) * rest // steps


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
