"""One environment after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentgym_rl.algorithms.mixture.mixture import Mixture, Pools
from agentgym_rl.algorithms.mixture.tasks import MixtureConfig
from agentgym_rl.data.episode import Episode


@dataclass(kw_only=True)
class SequentialConfig(MixtureConfig):
    """Keys of ``mixture=sequential``."""

    share_keys: ClassVar[tuple[str, ...]] = ("steps", "order")

    steps: int = 1
    """Steps (rounds of AgentEvol) of an environment before the next one's turn; the last one stays."""
    order: list[str] = field(default_factory=list)
    """Names of environments, each once; empty takes all that have a share, as the recipe lists them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1:
            raise ValueError(f"mixture.steps={self.steps} must be at least 1")


class Sequential(Mixture[SequentialConfig]):
    """All of a step for one environment. Steps are counted as their episodes are observed.

    With ``engine.mode`` other than ``sync`` a step is drawn before the one ahead of it was observed, so that the first
    environment's turn is longer by ``engine.ahead``.
    """

    Config = SequentialConfig

    def __init__(self, config: SequentialConfig, pools: Pools) -> None:
        super().__init__(config, pools)
        self.order = config.order or list(pools.given)
        if sorted(self.order) != sorted(pools.given):
            names = ", ".join(pools.given)
            raise ValueError(f"mixture.order={config.order} must name each environment that has a share once: {names}")
        self.observed = 0
        """Steps so far."""

    @property
    def shares(self) -> Mapping[str, float]:
        turn = min(self.observed // self.config.steps, len(self.order) - 1)
        return {env: float(place == turn) for place, env in enumerate(self.order)}

    def observe(self, episodes: Sequence[Episode]) -> None:
        super().observe(episodes)
        self.observed += 1

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "shares": {"observed": self.observed}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        observed = state.get("shares", {}).get("observed")
        if not isinstance(observed, int) or observed < 0:
            raise ValueError(f"the state of mixture=sequential has the number of steps observed, got {observed!r}")
        super().load_state_dict({**state, "shares": {}})
        self.observed = observed
