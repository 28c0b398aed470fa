r"""Which tasks of a world a step plays, and how often each.

Without statistics all tasks are alike. With them, kept by task or by difficulty, a task has the posterior of its key
(untouched evidence does not fade: a large pool shows a task again only after many steps), and is drawn without
replacement by the weight

.. math:: w = floor + (1 - floor) \, (4 E[p(1-p)])^{1/T}

so that tasks which are always or never solved come up less, and none is lost. The draw takes the least
:math:`Exp(w)` variates (Efraimidis and Spirakis 2006) among candidates drawn evenly from the pool, of which a large
pool gives ``CANDIDATES`` for each task wanted; it is never enumerated.

Samples: the numbers follow the standard deviation of an outcome, :math:`n_i \propto \sqrt{E[p(1-p)]}` (Neyman 1934),
within the limits. The idea is DART's (arXiv 2509.23866), which plays a task less than 8 times once its success rate
passes 0.6. Here what one task leaves goes to the others of its world, so that the world's number of episodes is as
without statistics, and tasks that are never solved are played less as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from random import Random
from typing import Any

from agentgym_rl.algorithms.mixture.posterior import Posterior
from agentgym_rl.algorithms.mixture.rounding import allot
from agentgym_rl.algorithms.mixture.settings import MixtureSettings
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task

CANDIDATES = 16
"""Tasks that are weighed for each one that is drawn."""


class Tasks:
    """All tasks of a pool alike."""

    def draw(self, env: str, pool: Sequence[int], n: int, rng: Random) -> list[Task]:
        """``n`` tasks of a pool that has some: no task twice while the pool has others."""
        positions: list[int] = []
        while len(positions) < n:
            positions += rng.sample(range(len(pool)), min(n - len(positions), len(pool)))
        return [Task(env, pool[position]) for position in positions]

    def samples(self, tasks: Sequence[Task], samples: int) -> list[int]:
        """Episodes of each task of one world, ``samples`` on average."""
        return [samples] * len(tasks)

    def learn(self, episodes: Sequence[Episode]) -> None:
        """Take in the episodes of a step, all of them of an ending that counts."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            raise ValueError("the state has statistics of tasks, and mixture.tasks=off keeps none")


class WeightedTasks(Tasks):
    """Tasks by what is known of each, or of its difficulty."""

    def __init__(self, envs: Sequence[str], settings: MixtureSettings, label: Callable[[Task], str]) -> None:
        self.settings, self.label = settings, label
        self.known: dict[str, dict[str, Posterior]] = {env: {} for env in envs}

    def posterior(self, task: Task) -> Posterior:
        """What is known of a task; the prior when nothing is."""
        return self.known[task.env].get(self._key(task), Posterior())

    def _key(self, task: Task) -> str:
        return str(task) if self.settings.tasks == "task" else self.label(task)

    def _weight(self, task: Task) -> float:
        worth: float = (4 * self.posterior(task).outcome_variance) ** (1 / self.settings.temperature)
        return self.settings.floor + (1 - self.settings.floor) * worth

    def draw(self, env: str, pool: Sequence[int], n: int, rng: Random) -> list[Task]:
        rounds, rest = divmod(n, len(pool))
        candidates = super().draw(env, pool, min(CANDIDATES * rest, len(pool)), rng)
        keys = {task: rng.expovariate(self._weight(task)) for task in candidates}
        return super().draw(env, pool, rounds * len(pool), rng) + sorted(candidates, key=keys.__getitem__)[:rest]

    def samples(self, tasks: Sequence[Task], samples: int) -> list[int]:
        weights = [sqrt(self.posterior(task).outcome_variance) for task in tasks]
        return allot(weights, samples * len(tasks), *self.settings.bounds(samples))

    def learn(self, episodes: Sequence[Episode]) -> None:
        outcomes: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
        for episode in episodes:
            outcomes[episode.env, self._key(Task.parse(episode.item_id))].append(episode.success)
        for (env, key), own in outcomes.items():
            self.known[env].setdefault(key, Posterior()).add(sum(own), len(own) - sum(own), self.settings.decay)

    def state_dict(self) -> dict[str, Any]:
        return {env: {key: one.state_dict() for key, one in known.items()} for env, known in self.known.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        if set(state) != set(self.known):
            raise ValueError(f"the state has tasks of the worlds {sorted(state)}, the mixture has {sorted(self.known)}")
        self.known = {env: {key: Posterior.from_state(one) for key, one in state[env].items()} for env in self.known}
