r"""Group-relative policy optimisation (GRPO, arXiv 2402.03300).

The advantage of an episode is its reward relative to the other episodes of its task,

.. math:: A_i = (r_i - \mathrm{mean}(r)) / \mathrm{std}(r)

on every token of its responses. The loss is PPO's clipped one. ``algorithm.normalise_by_std=false`` drops the division
(Dr. GRPO, arXiv 2503.20783).

Departures: episodes that failed for a reason outside the agent are not part of their group, and a singleton group
leaves the batch. The loss is a mean over all tokens of an update (``algorithm.loss.aggregation=token-mean``); the paper
takes the mean of the episodes' token means (``seq-mean-token-mean``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from agentgym_rl.algorithms.config import GroupConfig
from agentgym_rl.algorithms.policy_gradient import Credit, PolicyGradient
from agentgym_rl.data.episode import Episode

EPSILON = 1e-6
"""Keeps the division by a standard deviation of 0 finite; verl's GRPO has the same."""


@dataclass(kw_only=True)
class GRPOConfig(GroupConfig):
    """Keys of ``algorithm=grpo``."""

    normalise_by_std: bool = True
    """Divide the advantages of a group by the standard deviation of its rewards."""

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        keys = super().unused(off_policy=off_policy, environments=environments)
        if not self.normalise_by_std or self.shaping.penalises:
            return keys
        why = "algorithm.normalise_by_std=true divides by a deviation of the same scale, and no penalty is set"
        return {**keys, **dict.fromkeys(("shaping.scale", "shaping.normalise"), why)}


class GRPO(PolicyGradient[GRPOConfig]):
    """Rewards relative to those of the same task."""

    Config = GRPOConfig
    fewest_samples = 2

    def credit(self, group: Sequence[Episode]) -> Credit:
        return relative([episode.reward for episode in group], self.config.normalise_by_std)


def relative(values: Sequence[float], by_std: bool) -> list[float]:
    """Each value less their mean, divided by their sample standard deviation (n - 1) if ``by_std``; 0 for one value."""
    mean = fmean(values)
    scale = stdev(values) + EPSILON if by_std and len(values) > 1 else 1.0
    return [(value - mean) / scale for value in values]
