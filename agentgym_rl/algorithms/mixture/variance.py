r"""The variance of an environment's rewards within its tasks, while the agent learns.

A task with :math:`k \ge 2` episodes in a step gives the unbiased estimate

.. math:: u = \frac{1}{k - 1} \sum_{i=1}^{k} (r_i - \bar r)^2, \quad
    \text{which is } \frac{s (k - s)}{k (k - 1)} \text{ for } s \text{ rewards of 1 and } k - s \text{ of 0}

(the variance of a group, arXiv 2509.19803). It is 0 where the task is always or never solved, whatever the success rate
of the environment. With :math:`U` the sum of these estimates and :math:`G` the number of their tasks, which fade as the
counts of a :mod:`posterior <.posterior>` do,

.. math:: v = \frac{v_0 + U}{1 + G}

so that each task weighs the same, and :math:`v_0` weighs as much as one of them. It stands for the tasks that have
single episodes, and is the variance of all :math:`n` rewards, with sum :math:`R` and sum of squares :math:`Q`,

.. math:: v_0 = \frac{1}{n + 3} \left( 1 + Q - \frac{(1 + R)^2}{n + 2} \right)

For rewards of 0 and 1 it is the posterior's :math:`E[p(1-p)]`: the uniform prior is one reward of 0 and one of 1. It
holds the variance between tasks, too, which single episodes cannot tell from that within.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import variance

from agentgym_rl.algorithms.mixture.posterior import Faded
from agentgym_rl.data.episode import Episode


def rewards_by_task(episodes: Iterable[Episode]) -> list[list[float]]:
    """The rewards of each task's episodes that count."""
    rewards: defaultdict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        if episode.ending.counts:
            rewards[episode.item_id].append(episode.reward)
    return list(rewards.values())


@dataclass(slots=True)
class RewardVariance(Faded):
    """Faded sums over episodes, and over the tasks that had two or more of them in a step."""

    episodes: float = 0.0
    rewards: float = 0.0
    squares: float = 0.0
    tasks: float = 0.0
    variances: float = 0.0

    def add(self, tasks: Sequence[Sequence[float]], decay: float) -> None:
        """Let the evidence fade by ``decay`` and add a step's rewards, in [0, 1], by task."""
        rewards = [reward for task in tasks for reward in task]
        estimates = [variance(task) for task in tasks if len(task) > 1]
        self.fade(decay, len(rewards), sum(rewards), sum(r * r for r in rewards), len(estimates), sum(estimates))

    @property
    def overall(self) -> float:
        """Of the rewards of all episodes, in (0, 1/4); 1/6 before any."""
        n = self.episodes + 2
        return (1 + self.squares - (1 + self.rewards) ** 2 / n) / (n + 1)

    @property
    def within_tasks(self) -> float:
        """Of the rewards of a task, on average over tasks, in (0, 1/2); 1/6 before any episode."""
        return (self.overall + self.variances) / (1 + self.tasks)
