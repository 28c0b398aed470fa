"""The mixture of a run: draws the tasks of a step, and observes their episodes."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from agentgym_rl.algorithms.installed import installed
from agentgym_rl.algorithms.mixture import rounding
from agentgym_rl.algorithms.mixture.space import Adjustable, Settings
from agentgym_rl.algorithms.mixture.tasks import By, MixtureConfig, Tasks, WeightedTasks
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task


@dataclass(frozen=True, slots=True)
class Draw:
    """One task of a step."""

    task: Task
    samples: int
    """Its episodes."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an environment that a mixture makes while the run goes on."""

    env: str
    """The environment of the recipe."""
    settings: Settings
    """The options of the environment's class that make it a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The tasks that a run draws from.

    Raises:
        ValueError: a share is negative or not finite, or all are 0; an environment with a share has no tasks.
    """

    tasks: Mapping[str, Sequence[int]]
    """Task indices by environment."""
    shares: Mapping[str, float]
    """``envs.<name>.share``; an environment with 0 takes no part."""
    seed: int
    difficulty: Callable[[Task], str]
    """Label of a task, for ``mixture.tasks=difficulty``."""
    fewest_samples: int = 1
    """Fewest episodes of a task that the algorithm can learn from."""
    adjustable: Mapping[str, Adjustable] = field(default_factory=dict)
    """All environments of the run, for a mixture that makes parts of them."""

    def __post_init__(self) -> None:
        shares = self.shares
        if not any(shares.values()) or min(shares.values()) < 0 or not isfinite(sum(shares.values())):
            raise ValueError(f"envs.<name>.share must be finite, not negative and not all 0, got {dict(shares)}")
        empty = [env for env in self.given if not len(self.tasks.get(env, ()))]
        if empty:
            raise ValueError(f"no training tasks for {', '.join(empty)}; give it tasks or a share of 0")

    @property
    def given(self) -> dict[str, float]:
        """The shares of the environments that take part."""
        return {env: share for env, share in self.shares.items() if share}


C = TypeVar("C", bound=MixtureConfig)


class Mixture(ABC, Generic[C]):
    """Which tasks a step rolls out. What it learned is its state; everything else follows from seed and step."""

    Config: ClassVar[type[MixtureConfig]] = MixtureConfig
    uses_given_shares: ClassVar[bool] = False
    """It reads the sizes of ``envs.<name>.share``, not only which are 0."""
    makes_parts: ClassVar[bool] = False
    """Its tasks are those of :attr:`parts`, not of the recipe's environments."""

    def __init__(self, config: C, pools: Pools) -> None:
        """
        Raises:
            ValueError: the configuration does not fit the algorithm's ``fewest_samples``.
        """
        self.config, self.pools = config, pools
        self.ask: Callable[[str], str] = _nobody
        """Asks the run's writer, where :attr:`.MixtureConfig.writer` says that one is asked. For use while it observes;
        keeps answers and raises as :meth:`~agentgym_rl.algorithms.base.Run.generate`."""
        self.say: Callable[[str], None] = lambda text: None
        """Prints a line."""
        self.fewest_samples = max(pools.fewest_samples, config.min_samples)
        most = config.max_samples
        if config.tasks is not By.OFF and most is not None and most < self.fewest_samples:
            raise ValueError(f"mixture.max_samples={most} must be null or at least {self.fewest_samples}")
        self.tasks = Tasks() if config.tasks is By.OFF else WeightedTasks(list(pools.given), config, pools.difficulty)

    @property
    def parts(self) -> Mapping[str, Part]:
        """Environments that it made, by name."""
        return {}

    @property
    @abstractmethod
    def shares(self) -> Mapping[str, float]:
        """Each environment's share of the next step; not negative, with sum 1."""

    def draw(self, step: int, tasks: int, samples: int) -> list[Draw]:
        """Exactly ``tasks`` tasks and ``tasks * samples`` episodes; the same whenever asked until it observes episodes.

        No task comes twice while its pool has others.

        Raises:
            ValueError: ``samples`` is outside ``min_samples`` and ``max_samples``.
        """
        limits, seed = self.bounds(samples), self.pools.seed
        drawn: list[Draw] = []
        counts = rounding.counts(self.shares, tasks, rounding.phase(seed, step))
        for env, count in counts.items():
            chosen = self.tasks.draw(env, self.pools.tasks[env], count, Random(f"{seed}:{step}:{env}"))
            drawn += map(Draw, chosen, self.tasks.samples(chosen, samples, *limits))
        return drawn

    def leave_out(self, tasks: Collection[Task]) -> None:
        """Draw these tasks no more.

        Raises:
            ValueError: an environment with a share has no others.
        """
        rest = {
            env: [index for index in self.pools.tasks[env] if Task(env, index) not in tasks]
            for env in {task.env for task in tasks}
        }
        self.pools = replace(self.pools, tasks={**self.pools.tasks, **rest})

    def bounds(self, samples: int) -> tuple[int, int]:
        """Fewest and most episodes of a task in a step that has ``samples`` a task on average.

        Raises:
            ValueError: ``samples`` is outside the limits, so that no allotment has this average.
        """
        least, most = self.fewest_samples, self.config.max_samples
        if samples < 1:
            raise ValueError(f"algorithm.samples_per_task={samples} must be at least 1")
        if self.config.tasks is By.OFF:
            return samples, samples
        if samples < least:
            raise ValueError(f"mixture.min_samples={least} is more than algorithm.samples_per_task={samples}")
        if most is not None and samples > most:
            raise ValueError(f"mixture.max_samples={most} is less than algorithm.samples_per_task={samples}")
        return least, sys.maxsize if most is None else most

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Take in a step's episodes, once; those whose ending does not count are ignored.

        Raises:
            ValueError: an episode is of an environment that takes no part.
        """
        strangers = sorted({episode.env for episode in episodes} - set(self.pools.given))
        if strangers:
            raise ValueError(f"episodes of {', '.join(strangers)}, but the mixture has {', '.join(self.pools.given)}")
        self.tasks.observe([episode for episode in episodes if episode.ending.counts])

    def metrics(self) -> dict[str, float]:
        """``env/<name>/share``, and what a subclass adds."""
        return {f"env/{env}/share": share for env, share in self.shares.items()}

    def state_dict(self) -> dict[str, Any]:
        """JSON types; ``shares`` is a subclass's own."""
        return {"shares": {}, "tasks": self.tasks.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a mixture with the same configuration.

        Raises:
            ValueError: its keys or environments are not those of this mixture.
        """
        if set(state) != {"shares", "tasks"}:
            raise ValueError(f"a mixture's state has the keys shares and tasks, got {sorted(state)}")
        if state["shares"]:
            raise ValueError(f"the state has shares of {', '.join(sorted(state['shares']))}; these shares do not learn")
        self.tasks.load_state_dict(state["tasks"])


def _nobody(question: str) -> str:
    raise ValueError("the mixture is in no run, whose writer it could ask")


def normalised(weights: Mapping[str, float]) -> dict[str, float]:
    """Shares with sum 1."""
    total = sum(weights.values())
    return {env: weight / total for env, weight in weights.items()}


class Fixed(Mixture[MixtureConfig]):
    """Shares as given."""

    uses_given_shares = True

    @property
    def shares(self) -> Mapping[str, float]:
        return normalised(self.pools.given)


class Uniform(Mixture[MixtureConfig]):
    """The same share for every environment."""

    @property
    def shares(self) -> Mapping[str, float]:
        return normalised(dict.fromkeys(self.pools.given, 1.0))


class Proportional(Mixture[MixtureConfig]):
    """Shares by the number of training tasks."""

    @property
    def shares(self) -> Mapping[str, float]:
        return normalised({env: float(len(self.pools.tasks[env])) for env in self.pools.given})


def mixtures() -> Mapping[str, type[Mixture[Any]]]:
    """The classes of all installed mixtures by name: the entry-point group ``agentgym_rl.mixtures``."""
    return installed("agentgym_rl.mixtures", Mixture)
