"""REINFORCE with a clipped importance weight (CISPO, arXiv 2506.13585, equation 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym_rl.algorithms.losses.base import Loss, Tokens
from agentgym_rl.algorithms.losses.clipped import ClippedConfig

if TYPE_CHECKING:
    from torch import Tensor


class CISPO(Loss[ClippedConfig]):
    """A bound takes no token's gradient; it only weighs it less."""

    Config = ClippedConfig

    def __call__(self, tokens: Tokens) -> Tensor:
        ratio = tokens.log_ratio.exp().detach()
        return -self.config.clip_ratio(ratio) * tokens.advantages * tokens.log_prob

    def clipped(self, tokens: Tokens) -> Tensor:
        ratio = tokens.log_ratio.exp()
        return self.config.clip_ratio(ratio) != ratio
