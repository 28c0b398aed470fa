"""Curricula: the turn limit of the training episodes of each environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
        """The state that a resumed run needs; JSON types."""
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

    def observe(self, episodes: Sequence[Episode], whole: Callable[[str], str] = str) -> None:
        """Take in a step's episodes; those that do not count, or began with a replay, are ignored.

        Args:
            whole: the environment that a part of one is counted as.
        """
        counted = [episode for episode in episodes if episode.ending.counts and not episode.prefix_turns]
        for env, limit in self.limits.items():
            successes = [episode.success for episode in counted if whole(episode.env) == env]
            if successes:
                limit.observe(sum(successes) / len(successes))

    def metrics(self) -> dict[str, float]:
        return {
            f"env/{env}/{key}": value for env, limit in self.limits.items() for key, value in limit.metrics().items()
        }

    def state_dict(self) -> dict[str, Any]:
        """JSON types."""
        return {env: limit.state_dict() for env, limit in self.limits.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state_dict`."""
        for env, limit in self.limits.items():
            limit.load_state_dict(state[env])
