r"""REINFORCE with a leave-one-out baseline (RLOO, arXiv 2402.14740).

The advantage of an episode is its reward less the mean reward of the other episodes of its task,

.. math:: A_i = r_i - \frac{1}{k - 1} \sum_{j \ne i} r_j

on every token of its responses. There is no division by a standard deviation.

Departures: the loss is PPO's clipped one with several updates; the paper takes one update of plain REINFORCE. With one
update a step (``mini_batch_tasks`` = ``tasks_per_step``, ``epochs=1``) the gradients agree. The KL penalty is a loss
(``algorithm.loss.kl``, off by default) and not part of the reward. Groups are formed as in
:mod:`~agentgym_rl.algorithms.grpo`.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_rl.algorithms.config import GroupConfig
from agentgym_rl.algorithms.policy_gradient import Credit, PolicyGradient
from agentgym_rl.data.episode import Episode


class RLOO(PolicyGradient[GroupConfig]):
    """Rewards less the mean of the others."""

    Config = GroupConfig
    fewest_samples = 2

    def credit(self, group: Sequence[Episode]) -> Credit:
        return leave_one_out([episode.reward for episode in group])


def leave_one_out(values: Sequence[float]) -> list[float]:
    """Each of two values or more less the mean of the others."""
    total = sum(values)
    return [value - (total - value) / (len(values) - 1) for value in values]
