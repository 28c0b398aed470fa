"""Maximum likelihood of tokens, each with a weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym_rl.algorithms.losses.base import Loss, LossConfig, Tokens

if TYPE_CHECKING:
    from torch import Tensor


class CrossEntropy(Loss[LossConfig]):
    """Each token's negative log-probability, times its weight; an update is divided by the sum of its weights."""

    streams = frozenset({"cross_entropy"})
    divided_by = "cross_entropy"
    relative = False
    temperature = 1.0
    label = "supervised"

    def __call__(self, tokens: Tokens) -> Tensor:
        weight = tokens.streams["cross_entropy"]
        return -tokens.log_prob.where(weight != 0, 0.0) * weight


CROSS_ENTROPY = CrossEntropy(LossConfig())
