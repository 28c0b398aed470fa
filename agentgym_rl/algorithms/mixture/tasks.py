r"""Which tasks of an environment a step rolls out, and how many episodes each gets.

Without statistics all tasks are alike. With them, kept by task or by difficulty, a task has the posterior of its key
(untouched evidence does not fade: a large pool shows a task again only after many steps), and is drawn without
replacement by the weight

.. math:: w = floor + (1 - floor) \, (4 E[p(1-p)])^{1/T}

so that tasks which are always or never solved come up less, and none is lost. The draw takes the least
:math:`Exp(w)` variates (Efraimidis and Spirakis 2006) among candidates drawn evenly from the pool, of which a large
pool gives ``CANDIDATES`` for each task wanted; it is never enumerated.

Samples: the numbers follow the standard deviation of an outcome, :math:`n_i \propto \sqrt{E[p(1-p)]}` (Neyman 1934),
within the limits. The idea is DART's (arXiv 2509.23866), which gives a task fewer than 8 episodes once its success rate
passes 0.6. Here what one task leaves goes to the others of its environment, so that the environment has as many
episodes as without statistics, and tasks that are never solved get fewer as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, sqrt
from random import Random
from typing import Any, ClassVar

from agentgym_rl.algorithms.mixture.posterior import Posterior
from agentgym_rl.algorithms.mixture.rounding import allot
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task

CANDIDATES = 16
"""Tasks that are weighed for each one that is drawn."""


class By(StrEnum):
    """The key by which the statistics of tasks are kept."""

    OFF = "off"
    TASK = "task"
    DIFFICULTY = "difficulty"


@dataclass(kw_only=True)
class MixtureConfig:
    """Keys of every mixture under ``mixture``: which tasks of an environment are drawn."""

    type: str = ""
    """Its word in a recipe: the name of its entry point."""
    tasks: By = By.OFF
    """Tasks of an environment: off (all alike), task (by the success of each) or difficulty (by that of its label)."""
    floor: float = 0.1
    """Least weight of a task, as a part of the greatest; dynamic: least share, as a part of the uniform share."""
    temperature: float = 1.0
    """Weights (dynamic: and shares) follow value ** (1 / temperature): above 1 flatter, below 1 sharper."""
    decay: float = 0.9
    """Share of a task's evidence that stays after a step that drew it; dynamic: of an environment's after a step."""
    min_samples: int = 1
    """Fewest episodes of a task in a step; never below what the algorithm needs."""
    max_samples: int | None = None
    """Most episodes of a task in a step; null sets no limit."""

    share_keys: ClassVar[tuple[str, ...]] = ()
    """Keys that have an effect on shares alone."""
    both_keys: ClassVar[tuple[str, ...]] = ()
    """Keys that have an effect on the weights of tasks and on shares."""

    def __post_init__(self) -> None:
        if not 0 < self.floor <= 1:
            raise ValueError(f"mixture.floor={self.floor} must be above 0 and at most 1")
        if not 0 < self.temperature < inf:
            raise ValueError(f"mixture.temperature={self.temperature} must be above 0 and finite")
        if not 0 <= self.decay < 1:
            raise ValueError(f"mixture.decay={self.decay} must be at least 0 and below 1")
        if self.min_samples < 1:
            raise ValueError(f"mixture.min_samples={self.min_samples} must be at least 1")
        if self.max_samples is not None and self.max_samples < self.min_samples:
            raise ValueError(
                f"mixture.max_samples={self.max_samples} must be null or at least min_samples={self.min_samples}"
            )

    @property
    def writer(self) -> str | None:
        """The key that asks the run's writer (:attr:`.Mixture.ask`), where one does."""
        return None

    def unused(self, *, environments: int) -> dict[str, str]:
        """Keys that have no effect, and why.

        Args:
            environments: how many have a share.
        """
        reasons: dict[str, str] = {}
        if environments == 1:
            why = "one environment has all tasks of every step"
            reasons = dict.fromkeys(self.share_keys, why)
        if self.tasks is By.OFF:
            shared = self.both_keys if environments > 1 else ()
            keys = {"floor", "temperature", "decay", "min_samples", "max_samples"}.difference(shared)
            reasons |= dict.fromkeys(sorted(keys), "mixture.tasks=off treats tasks alike")
        return reasons


class Tasks:
    """All tasks of a pool alike."""

    def draw(self, env: str, pool: Sequence[int], n: int, rng: Random) -> list[Task]:
        """``n`` tasks of a pool that has some: no task twice while the pool has others."""
        positions: list[int] = []
        while len(positions) < n:
            positions += rng.sample(range(len(pool)), min(n - len(positions), len(pool)))
        return [Task(env, pool[position]) for position in positions]

    def samples(self, tasks: Sequence[Task], samples: int, least: int, most: int) -> list[int]:
        """Episodes of each task of one environment, ``samples`` on average."""
        return [samples] * len(tasks)

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Take in the episodes of a step, all with an ending that counts."""

    def follow(self, envs: Sequence[str]) -> None:
        """Go on with other environments; what is known of those that stay is kept."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            raise ValueError("the state has statistics of tasks, and mixture.tasks=off keeps none")


class WeightedTasks(Tasks):
    """Tasks by what is known of each, or of its difficulty."""

    def __init__(self, envs: Sequence[str], config: MixtureConfig, difficulty: Callable[[Task], str]) -> None:
        self.config, self.difficulty = config, difficulty
        self.known: dict[str, dict[str, Posterior]] = {env: {} for env in envs}

    def posterior(self, task: Task) -> Posterior:
        """The posterior of a task; the prior where nothing is known."""
        return self.known[task.env].get(self._key(task), Posterior())

    def _key(self, task: Task) -> str:
        return str(task) if self.config.tasks is By.TASK else self.difficulty(task)

    def _weight(self, task: Task) -> float:
        worth: float = (4 * self.posterior(task).outcome_variance) ** (1 / self.config.temperature)
        return self.config.floor + (1 - self.config.floor) * worth

    def draw(self, env: str, pool: Sequence[int], n: int, rng: Random) -> list[Task]:
        rounds, rest = divmod(n, len(pool))
        candidates = super().draw(env, pool, min(CANDIDATES * rest, len(pool)), rng)
        keys = {task: rng.expovariate(self._weight(task)) for task in candidates}
        return super().draw(env, pool, rounds * len(pool), rng) + sorted(candidates, key=keys.__getitem__)[:rest]

    def samples(self, tasks: Sequence[Task], samples: int, least: int, most: int) -> list[int]:
        weights = [sqrt(self.posterior(task).outcome_variance) for task in tasks]
        return allot(weights, samples * len(tasks), least, most)

    def observe(self, episodes: Sequence[Episode]) -> None:
        outcomes: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
        for episode in episodes:
            outcomes[episode.env, self._key(Task.parse(episode.item_id))].append(episode.success)
        for (env, key), successes in outcomes.items():
            solved = sum(successes)
            self.known[env].setdefault(key, Posterior()).add(solved, len(successes) - solved, self.config.decay)

    def follow(self, envs: Sequence[str]) -> None:
        self.known = {env: self.known.get(env, {}) for env in envs}

    def state_dict(self) -> dict[str, Any]:
        return {env: {key: sums.state_dict() for key, sums in known.items()} for env, known in self.known.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        if set(state) != set(self.known):
            raise ValueError(
                f"the state has tasks of {sorted(state)}, the mixture has the environments {sorted(self.known)}"
            )
        self.known = {env: {key: Posterior.from_state(sums) for key, sums in state[env].items()} for env in self.known}
