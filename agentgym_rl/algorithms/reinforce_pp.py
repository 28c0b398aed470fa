r"""REINFORCE++ (arXiv 2501.03262), with verl's estimator.

The return of a token is the discounted reward that follows; its advantage is the return, whitened over all tokens of
the batch,

.. math:: G_t = \sum_{l \ge t} \gamma^{l - t} r_l, \qquad A_t = (G_t - \mathrm{mean}(G)) / \mathrm{std}(G)

with no groups and no critic. In an episode of several turns, verl's estimator works like this:

- The running return passes observation tokens unchanged, so the final reward reaches the first turn. Observation tokens
  take no part in the whitening.
- :math:`\gamma` discounts tokens, not turns: below 1 it prefers short responses and soon forgets early turns (0.99 over
  300 tokens is 0.05). The default is 1.
- The whitening is over tokens, so long episodes weigh more in mean and deviation.
- The reward must be on a token of a response. The agent loop guarantees it.

Departure: the paper's KL penalty in the reward is a loss here (``algorithm.loss.kl``, off by default).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentgym_rl.algorithms.base import Estimator, Needs
from agentgym_rl.algorithms.checks import share
from agentgym_rl.algorithms.config import PolicyGradientConfig
from agentgym_rl.algorithms.policy_gradient import PolicyGradient


@dataclass(kw_only=True)
class ReinforcePPConfig(PolicyGradientConfig):
    """Keys of ``algorithm=reinforce_pp``."""

    tasks_per_step: int = 64
    """Tasks of a step."""
    samples_per_task: int = 4
    """Episodes of a task."""
    gamma: float = 1.0
    """Discount of a token."""

    def __post_init__(self) -> None:
        super().__post_init__()
        share(self, "gamma")

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        keys = super().unused(off_policy=off_policy, environments=environments)
        if self.shaping.penalises:
            return keys
        keys = {**keys, "shaping.scale": "advantages are whitened over the batch, and no penalty is set"}
        if environments == 1 and self.gamma == 1:
            why = "advantages are whitened over the batch, whose rewards are all of one environment"
            keys = {**keys, "shaping.normalise": why}
        return keys


class ReinforcePP(PolicyGradient[ReinforcePPConfig]):
    """Returns, whitened over the batch."""

    Config = ReinforcePPConfig

    @classmethod
    def needs(cls, config: ReinforcePPConfig) -> Needs:
        return replace(super().needs(config), estimator=Estimator(name="reinforce_plus_plus", gamma=config.gamma))
