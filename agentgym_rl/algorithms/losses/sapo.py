"""A soft gate in place of clipping (SAPO, arXiv 2511.20347, equations 5 and 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym_rl.algorithms.losses.base import Loss, LossConfig, Tokens

if TYPE_CHECKING:
    from torch import Tensor

TAU_POSITIVE, TAU_NEGATIVE = 1.0, 1.05
"""The temperatures of the paper."""


class SAPO(Loss[LossConfig]):
    """A sigmoid of the ratio, which falls off to both sides."""

    def __call__(self, tokens: Tokens) -> Tensor:
        advantages = tokens.advantages
        tau = (advantages * 0 + TAU_POSITIVE).where(advantages > 0, TAU_NEGATIVE)
        return -(tau * (tokens.log_ratio.exp() - 1)).sigmoid() * 4 / tau * advantages
