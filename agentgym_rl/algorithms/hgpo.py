r"""Hierarchy-of-groups policy optimisation (HGPO, arXiv 2602.22817): turns compared by what they saw before, too.

GiGPO (:mod:`~agentgym_rl.algorithms.gigpo`) compares all turns that answer the same observation, whatever led there.
Here a turn is a member of several groups: level :math:`k` has the turns whose last :math:`k + 1` observations are the
same, for :math:`k` up to ``algorithm.history``. Its advantage is the mean of those of its levels, in which longer
histories weigh more,

.. math:: A^S(a_t) = \sum_k \frac{(k + 2)^\alpha}{\sum_j (j + 2)^\alpha} A_k(a_t), \qquad
          A_k(a_t) = (R_t - \mathrm{mean}(R)) / F

over the levels at which it has an advantage other than 0. :math:`F` is the standard deviation of the group (of all its
members, not of a sample), or 1 with ``algorithm.normalise_by_std=false``; :math:`\alpha` is ``algorithm.length_power``.

As published, there is no advantage of the episode beside it: ``algorithm.episode_weight`` is 0.

Departures: verl-agent's option ``base_group``, off in its scripts, counts the advantage of the episode as one more
level of weight 1; here it is a term of its own (:mod:`.step_credit`). The others are those of GiGPO.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from statistics import fmean, pstdev

from agentgym_rl.algorithms.checks import at_least
from agentgym_rl.algorithms.grpo import EPSILON
from agentgym_rl.algorithms.step_credit import OfTurns, StepCredit, StepCreditConfig, anchors, compared, returned
from agentgym_rl.data.episode import Episode


@dataclass(kw_only=True)
class HGPOConfig(StepCreditConfig):
    """Keys of ``algorithm=hgpo``."""

    episode_weight: float = 0.0
    """Weight of the advantage of the episode."""
    history: int = 2
    """Most observations before the present one that are compared; 0 has the groups of GiGPO."""
    length_power: float = 1.0
    """How much more longer histories weigh; 0 weighs all levels alike."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "history", "length_power")

    def of_steps(self) -> Sequence[str]:
        return ["gamma", "history", "length_power"]

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        keys = super().unused(off_policy=off_policy, environments=environments)
        return keys if self.history else {"length_power": "algorithm.history=0 has a single level", **keys}


class HGPO(StepCredit[HGPOConfig]):
    """Turns relative to those with the same observations, the last one or more of them."""

    Config = HGPOConfig

    def of_steps(self, group: Sequence[Episode]) -> OfTurns:
        config, seen = self.config, [*map(anchors, group)]
        values = returned(group, config.gamma)
        levels = [compared(values, histories(seen, length), self._relative) for length in range(config.history + 1)]
        return [
            [self._mean([level[index][turn] for level in levels[: turn + 1]]) for turn in range(len(returns))]
            for index, returns in enumerate(values)
        ]

    def _relative(self, values: Sequence[float]) -> list[float]:
        mean = fmean(values)
        scale = pstdev(values) + EPSILON if self.config.normalise_by_std else 1.0
        return [(value - mean) / scale for value in values]

    def _mean(self, levels: Sequence[float]) -> float:
        """Of a turn's advantages by length of history, without those that are 0."""
        power = self.config.length_power
        weights = [(k + 2.0) ** power if abs(advantage) > EPSILON else 0.0 for k, advantage in enumerate(levels)]
        total: float = sum(map(mul, weights, levels)) / (sum(weights) + EPSILON)
        return total


def histories(seen: Sequence[Sequence[str]], length: int) -> list[list[Hashable]]:
    """Each turn's observation and up to ``length`` before it."""
    return [[tuple(states[max(0, turn - length) : turn + 1]) for turn in range(len(states))] for states in seen]
