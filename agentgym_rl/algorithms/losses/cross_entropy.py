"""Maximum likelihood: of demonstrations, and of observations beside a policy's loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym_rl.algorithms.losses.base import Loss, LossConfig, Tokens

if TYPE_CHECKING:
    from torch import Tensor


class CrossEntropy(Loss[LossConfig]):
    """Each token's negative log-probability, times its weight."""

    streams = frozenset({"weight"})

    def __call__(self, tokens: Tokens) -> Tensor:
        weight = tokens.streams["weight"]
        return -tokens.log_prob.where(weight != 0, 0.0) * weight
