r"""The part of a step's tasks that each world gets.

Dynamic: a world is worth what there is to learn in it. With the posterior of its success rate p,

=========  =====================================================================================================
variance   :math:`v = E[p(1-p)]`, greatest where the agent neither always wins nor always loses, and sizeable where
           nothing is known (learnability, arXiv 2408.15099 and 2502.12272, there from point estimates of p)
failure    :math:`v = E[1-p]`
progress   :math:`v = \sqrt{E[(p - p')^2]}` with p' from evidence that fades four times as slowly (absolute learning
           progress, arXiv 1707.00183; there \|p - p'\| of two averages. The posteriors, taken as independent, add
           their variances, so that a world of which little is known keeps weight)
=========  =====================================================================================================

and its share moves towards its part of the worth of all K worlds, mixed with the uniform share (as Exp3 mixes for
exploration, Auer et al. 2002),

.. math::

    target_i = \frac{floor}{K} + (1 - floor) \frac{v_i^{1/T}}{\sum_j v_j^{1/T}}, \quad
    q_i \leftarrow smoothing \cdot q_i + (1 - smoothing) \, target_i

It starts from the given shares, mixed likewise, so that no share is ever below floor/K.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from agentgym_rl.algorithms.mixture.posterior import Posterior
from agentgym_rl.algorithms.mixture.settings import MixtureSettings
from agentgym_rl.data.episode import Episode

SLOWER = 4
"""How many times as long the slow average of ``progress`` remembers."""


class Shares:
    """Shares that stay as they are; positive, with sum 1."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        total = sum(shares.values())
        self.shares = {env: share / total for env, share in shares.items()}

    def learn(self, episodes: Sequence[Episode]) -> None:
        """Take in the episodes of a step, all of them of an ending that counts."""

    def metrics(self) -> dict[str, float]:
        return {f"env/{env}/share": share for env, share in self.shares.items()}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            raise ValueError(f"the state has learnt shares of {', '.join(sorted(state))}; these shares do not learn")


class DynamicShares(Shares):
    """Shares that follow the success of the worlds."""

    def __init__(self, shares: Mapping[str, float], settings: MixtureSettings) -> None:
        super().__init__(shares)
        self.settings = settings
        self.fast = {env: Posterior() for env in shares}
        self.slow = {env: Posterior() for env in shares}
        self.shares = self._with_floor(self.shares)

    def learn(self, episodes: Sequence[Episode]) -> None:
        fast = self.settings.decay
        slow = 1 - (1 - fast) / SLOWER
        for env in self.shares:
            own = [episode.success for episode in episodes if episode.env == env]
            self.fast[env].add(sum(own), len(own) - sum(own), fast)
            self.slow[env].add(sum(own), len(own) - sum(own), slow)
        values = {env: self.worth(env) for env in self.shares}
        most, kept = max(values.values()), self.settings.smoothing
        weights = {env: (value / most) ** (1 / self.settings.temperature) for env, value in values.items()}
        total = sum(weights.values())
        target = self._with_floor({env: weight / total for env, weight in weights.items()})
        self.shares = {env: kept * share + (1 - kept) * target[env] for env, share in self.shares.items()}

    def worth(self, env: str) -> float:
        """What there is to learn in a world, above 0."""
        fast, slow = self.fast[env], self.slow[env]
        if self.settings.value == "variance":
            return fast.outcome_variance
        if self.settings.value == "failure":
            return 1 - fast.mean
        return sqrt((fast.mean - slow.mean) ** 2 + fast.variance + slow.variance)

    def _with_floor(self, shares: Mapping[str, float]) -> dict[str, float]:
        floor = self.settings.floor
        return {env: floor / len(shares) + (1 - floor) * share for env, share in shares.items()}

    def metrics(self) -> dict[str, float]:
        metrics = super().metrics()
        for env, posterior in self.fast.items():
            metrics |= {f"env/{env}/estimate": posterior.mean, f"env/{env}/uncertainty": sqrt(posterior.variance)}
        return metrics

    def state_dict(self) -> dict[str, Any]:
        return {
            env: {"share": share, "fast": self.fast[env].state_dict(), "slow": self.slow[env].state_dict()}
            for env, share in self.shares.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if set(state) != set(self.shares):
            raise ValueError(f"the state is of the worlds {sorted(state)}, the mixture has {sorted(self.shares)}")
        odd = sorted(env for env, one in state.items() if set(one) != {"share", "fast", "slow"})
        if odd:
            raise ValueError(f"the state of {', '.join(odd)} needs share, fast and slow, and nothing else")
        shares = {env: float(state[env]["share"]) for env in self.shares}
        if not (abs(sum(shares.values()) - 1) < 1e-6 and min(shares.values()) > 0):
            raise ValueError(f"the state's shares must be positive with sum 1, got {shares}")
        fast = {env: Posterior.from_state(state[env]["fast"]) for env in self.shares}
        slow = {env: Posterior.from_state(state[env]["slow"]) for env in self.shares}
        self.shares, self.fast, self.slow = shares, fast, slow
