r"""Shares that follow what there is to learn in each environment.

With the posterior of its success rate p, the value of an environment is

=========  =====================================================================================================
variance   the variance of the reward within a task, on average over its tasks (:mod:`.variance`): greatest where
           the agent solves the same task in one episode and not in another, and sizeable where nothing is known
           (learnability p(1-p) of a task, arXiv 2408.15099 and 2502.12272)
failure    :math:`v = E[1-p]`
progress   :math:`v = \sqrt{E[(p - p')^2]}` with p' from evidence that fades four times as slowly (absolute learning
           progress, arXiv 1707.00183; there \|p - p'\| of two averages. The posteriors, taken as independent, add
           their variances, so that an environment of which little is known keeps weight)
=========  =====================================================================================================

and its share moves towards its part of the values of all K environments, mixed with the uniform share (as Exp3 mixes
for exploration, Auer et al. 2002),

.. math::

    target_i = \frac{floor}{K} + (1 - floor) \frac{v_i^{1/T}}{\sum_j v_j^{1/T}}, \quad
    q_i \leftarrow smoothing \cdot q_i + (1 - smoothing) \, target_i

It starts from the given shares, mixed likewise, so that no share is ever below floor/K.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from typing import Any, ClassVar

from agentgym_rl.algorithms.mixture.mixture import Mixture, Pools, normalised
from agentgym_rl.algorithms.mixture.posterior import Posterior
from agentgym_rl.algorithms.mixture.tasks import MixtureConfig
from agentgym_rl.algorithms.mixture.variance import RewardVariance, rewards_by_task
from agentgym_rl.data.episode import Episode

SLOWER = 4
"""How many times as long the slow average of ``progress`` remembers."""


class Value(StrEnum):
    """Measures of how much an environment teaches."""

    VARIANCE = "variance"
    FAILURE = "failure"
    PROGRESS = "progress"


@dataclass(kw_only=True)
class DynamicConfig(MixtureConfig):
    """Keys of ``mixture=dynamic``; ``floor``, ``temperature`` and ``decay`` are those of shares, too."""

    share_keys: ClassVar[tuple[str, ...]] = ("value", "smoothing")
    both_keys: ClassVar[tuple[str, ...]] = ("floor", "temperature", "decay")

    value: Value = Value.VARIANCE
    """How much an environment teaches: the variance of the reward within a task (variance), 1-p (failure) or the recent
    change of p (progress)."""
    smoothing: float = 0.0
    """Part of the last step's share that is kept; 0 jumps to the target."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"mixture.smoothing={self.smoothing} must be at least 0 and below 1")


class Dynamic(Mixture[DynamicConfig]):
    """Shares that follow the rewards of the environments."""

    Config = DynamicConfig
    uses_given_shares = True

    def __init__(self, config: DynamicConfig, pools: Pools) -> None:
        super().__init__(config, pools)
        self._shares = self._with_floor(normalised(pools.given))
        self.fast = {env: Posterior() for env in self._shares}
        self.slow = {env: Posterior() for env in self._shares}
        self.rewards = {env: RewardVariance() for env in self._shares}

    @property
    def shares(self) -> Mapping[str, float]:
        return self._shares

    def observe(self, episodes: Sequence[Episode]) -> None:
        super().observe(episodes)
        fast = self.config.decay
        slow = 1 - (1 - fast) / SLOWER
        for env in self._shares:
            counted = [episode for episode in episodes if episode.env == env and episode.ending.counts]
            won = sum(episode.success for episode in counted)
            self.fast[env].add(won, len(counted) - won, fast)
            self.slow[env].add(won, len(counted) - won, slow)
            self.rewards[env].add(rewards_by_task(counted), fast)
        values = {env: self.value(env) for env in self._shares}
        most, smoothing = max(values.values()), self.config.smoothing
        weights = {env: (value / most) ** (1 / self.config.temperature) for env, value in values.items()}
        target = self._with_floor(normalised(weights))
        self._shares = {env: smoothing * share + (1 - smoothing) * target[env] for env, share in self._shares.items()}

    def value(self, env: str) -> float:
        """How much an environment teaches, above 0."""
        fast, slow = self.fast[env], self.slow[env]
        if self.config.value is Value.VARIANCE:
            return self.rewards[env].within_tasks
        if self.config.value is Value.FAILURE:
            return 1 - fast.mean
        return sqrt((fast.mean - slow.mean) ** 2 + fast.variance + slow.variance)

    def _with_floor(self, shares: Mapping[str, float]) -> dict[str, float]:
        floor = self.config.floor
        return {env: floor / len(shares) + (1 - floor) * share for env, share in shares.items()}

    def metrics(self) -> dict[str, float]:
        """Adds ``mixture/floor``, the least share, ``value``, and where there was an episode ``estimate`` and
        ``uncertainty`` of the success rate: mean and standard deviation."""
        metrics = super().metrics() | {"mixture/floor": self.config.floor / len(self._shares)}
        for env, posterior in self.fast.items():
            metrics[f"env/{env}/value"] = self.value(env)
            if not posterior.known:
                continue
            metrics |= {f"env/{env}/estimate": posterior.mean, f"env/{env}/uncertainty": sqrt(posterior.variance)}
        return metrics

    def state_dict(self) -> dict[str, Any]:
        shares = {
            env: {
                "share": share,
                "fast": self.fast[env].state_dict(),
                "slow": self.slow[env].state_dict(),
                "rewards": self.rewards[env].state_dict(),
            }
            for env, share in self._shares.items()
        }
        return super().state_dict() | {"shares": shares}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        learned = state.get("shares", {})
        super().load_state_dict({**state, "shares": {}} if "shares" in state else state)
        if set(learned) != set(self._shares):
            raise ValueError(
                f"the state is of the environments {sorted(learned)}, the mixture has {sorted(self._shares)}"
            )
        odd = sorted(env for env, saved in learned.items() if set(saved) != {"share", "fast", "slow", "rewards"})
        if odd:
            raise ValueError(
                f"the state of {', '.join(odd)} needs share, fast, slow and rewards, and nothing else; "
                "the state of an earlier version cannot be resumed"
            )
        shares = {env: float(learned[env]["share"]) for env in self._shares}
        if not (abs(sum(shares.values()) - 1) < 1e-6 and min(shares.values()) > 0):
            raise ValueError(f"the state's shares must be positive with sum 1, got {shares}")
        self.fast = {env: Posterior.from_state(learned[env]["fast"]) for env in self._shares}
        self.slow = {env: Posterior.from_state(learned[env]["slow"]) for env in self._shares}
        self.rewards = {env: RewardVariance.from_state(learned[env]["rewards"]) for env in self._shares}
        self._shares = shares
