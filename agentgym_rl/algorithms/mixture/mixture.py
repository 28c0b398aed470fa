"""The mixture: draws the tasks of a step, and learns from their episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from random import Random
from typing import Any

from agentgym_rl.algorithms.mixture import rounding
from agentgym_rl.algorithms.mixture.settings import MixtureSettings
from agentgym_rl.algorithms.mixture.shares import DynamicShares, Shares
from agentgym_rl.algorithms.mixture.tasks import Tasks, WeightedTasks
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task


@dataclass(frozen=True, slots=True)
class Draw:
    """One task of a step."""

    task: Task
    samples: int
    """Episodes of it."""


class Mixture:
    """Which tasks a step plays. What it learnt is its state; everything else follows from seed and step."""

    def __init__(
        self, settings: MixtureSettings, pools: Mapping[str, Sequence[int]], shares: Shares, tasks: Tasks, seed: int
    ) -> None:
        self.settings, self.pools, self.shares, self.tasks, self.seed = settings, pools, shares, tasks, seed

    def draw(self, step: int, tasks: int, samples: int) -> list[Draw]:
        """Exactly ``tasks`` tasks and ``tasks * samples`` episodes; the same whenever asked until it learns again.

        No task comes twice while its pool has others.

        Raises:
            ValueError: ``samples`` is outside ``min_samples`` and ``max_samples``.
        """
        self.settings.bounds(samples)
        drawn: list[Draw] = []
        counts = rounding.counts(self.shares.shares, tasks, rounding.phase(self.seed, step))
        for env, count in counts.items():
            chosen = self.tasks.draw(env, self.pools[env], count, Random(f"{self.seed}:{step}:{env}"))
            drawn += map(Draw, chosen, self.tasks.samples(chosen, samples))
        return drawn

    def learn(self, episodes: Sequence[Episode]) -> None:
        """Take in a step's episodes, once; those whose ending does not count are ignored.

        Raises:
            ValueError: an episode is of a world that takes no part.
        """
        strangers = sorted({episode.env for episode in episodes} - set(self.shares.shares))
        if strangers:
            raise ValueError(f"episodes of {', '.join(strangers)}, but the mixture has {', '.join(self.shares.shares)}")
        counted = [episode for episode in episodes if episode.ending.counts]
        self.shares.learn(counted)
        self.tasks.learn(counted)

    def metrics(self) -> dict[str, float]:
        """``env/<name>/share``; dynamic: also ``estimate`` and ``uncertainty`` of the success rate, mean and sd."""
        return self.shares.metrics()

    def state_dict(self) -> dict[str, Any]:
        """JSON types."""
        return {"shares": self.shares.state_dict(), "tasks": self.tasks.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of a mixture with the same settings.

        Raises:
            ValueError: its keys or worlds are not those of this mixture.
        """
        if set(state) != {"shares", "tasks"}:
            raise ValueError(f"a mixture's state has the keys shares and tasks, got {sorted(state)}")
        self.shares.load_state_dict(state["shares"])
        self.tasks.load_state_dict(state["tasks"])


def build(
    settings: MixtureSettings,
    pools: Mapping[str, Sequence[int]],
    shares: Mapping[str, float],
    seed: int,
    label: Callable[[Task], str],
) -> Mixture:
    """
    Args:
        pools: task indices by world.
        shares: ``worlds.<name>.share``; a world with 0 takes no part. ``uniform`` and ``proportional`` ask no more of
            them, ``dynamic`` starts from them.
        label: difficulty of a task, for ``mixture.tasks=difficulty``.

    Raises:
        ValueError: a share is negative or not finite, or all are 0; a world with a share has no tasks.
    """
    if not any(shares.values()) or min(shares.values()) < 0 or not isfinite(sum(shares.values())):
        raise ValueError(f"worlds.<name>.share must be finite, not negative and not all 0, got {dict(shares)}")
    given = {env: share for env, share in shares.items() if share}
    idle = [env for env in given if not len(pools.get(env, ()))]
    if idle:
        raise ValueError(f"no training tasks for {', '.join(idle)}; give it tasks or a share of 0")
    if settings.type == "uniform":
        given = dict.fromkeys(given, 1.0)
    if settings.type == "proportional":
        given = {env: float(len(pools[env])) for env in given}
    worlds = DynamicShares(given, settings) if settings.type == "dynamic" else Shares(given)
    tasks = Tasks() if settings.tasks == "off" else WeightedTasks(list(given), settings, label)
    return Mixture(settings, pools, worlds, tasks, seed)
