r"""Group-in-group policy optimisation (GiGPO, arXiv 2505.10978): GRPO over episodes, and again over turns.

The advantage of a turn is that of its episode plus that of the step it took (:mod:`.step_credit`),

.. math:: A^S(a_t) = (R_t - \mathrm{mean}(R)) / F, \qquad R_t = \sum_{k \ge t} \gamma^{k - t} r_k

The mean and :math:`F` are over all turns in the episodes of the task that answer the same observation, the anchor
state; :math:`F` is their standard deviation, or 1 with ``algorithm.normalise_by_std=false``. :math:`\gamma` is
``algorithm.gamma``.

Departures: the paper feeds the model one prompt a turn, as ``rollout.context=recent`` does; else an episode is one
sequence, in which each turn's tokens have an advantage of their own. Mean and deviation of :math:`A^E` are over the
episodes of the task, as in the paper; verl-agent's default (``compute_mean_std_cross_steps=True``) takes them over all
turns of these episodes, so that long ones weigh more. A turn whose observation occurs once has :math:`A^S = 0`. Groups
are formed as in :mod:`~agentgym_rl.algorithms.grpo`. ``algorithm.groups.filter`` looks at rewards alone: it also leaves
out a group whose episodes were rewarded alike and took ways of other lengths, where :math:`A^S` is not 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_rl.algorithms.grpo import relative
from agentgym_rl.algorithms.step_credit import OfTurns, StepCredit, StepCreditConfig, anchors, compared, returned
from agentgym_rl.data.episode import Episode


@dataclass(kw_only=True)
class GiGPOConfig(StepCreditConfig):
    """Keys of ``algorithm=gigpo``."""


class GiGPO(StepCredit[GiGPOConfig]):
    """Episodes relative to those of their task, turns relative to those that answer the same observation."""

    Config = GiGPOConfig

    def of_steps(self, group: Sequence[Episode]) -> OfTurns:
        values = returned(group, self.config.gamma)
        return compared(values, [*map(anchors, group)], lambda returns: relative(returns, self.config.normalise_by_std))
