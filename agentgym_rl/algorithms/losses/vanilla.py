"""PPO's clipped loss (arXiv 1707.06347, equation 7) with a dual clip (arXiv 1912.09729, equation 5)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from agentgym_rl.algorithms.checks import above
from agentgym_rl.algorithms.losses.base import Tokens
from agentgym_rl.algorithms.losses.clipped import Clipped, ClippedConfig

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(kw_only=True)
class VanillaConfig(ClippedConfig):
    """Keys of ``algorithm.loss=vanilla``."""

    name: str = "vanilla"
    """The loss: vanilla (PPO), gspo, turn, cispo or sapo; see :mod:`agentgym_rl.algorithms.losses`."""
    dual_clip: float = 3.0
    """Greatest ratio that counts where the advantage is negative."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 1, "dual_clip")


class Vanilla(Clipped[VanillaConfig]):
    """One ratio a token."""

    Config = VanillaConfig

    def __call__(self, tokens: Tokens) -> Tensor:
        return super().__call__(tokens).minimum(self._most(tokens))

    def clipped(self, tokens: Tokens) -> Tensor:
        free, bound = self._sides(tokens)
        return (bound > free) | (free.maximum(bound) > self._most(tokens))

    def _most(self, tokens: Tokens) -> Tensor:
        return (-tokens.advantages * self.config.dual_clip).where(tokens.advantages < 0, inf)
