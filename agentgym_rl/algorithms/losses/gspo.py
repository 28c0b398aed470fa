"""Clipping by the ratio of a whole sequence (GSPO-token, arXiv 2507.18071, equations 7 and 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym_rl.algorithms.losses.base import MAX_LOG_RATIO, Tokens
from agentgym_rl.algorithms.losses.clipped import Clipped, ClippedConfig

if TYPE_CHECKING:
    from torch import Tensor


class GSPO(Clipped[ClippedConfig]):
    """The geometric mean of the ratios of a sequence; the gradient is that of each token."""

    def log_ratio(self, tokens: Tokens) -> Tensor:
        return mean_log_ratio(tokens, tokens.mask.long() * 0)


def mean_log_ratio(tokens: Tokens, groups: Tensor) -> Tensor:
    """[rows, tokens]: the mean over each group of tokens, with the gradient of each token.

    Args:
        groups: [rows, tokens], numbers the groups of each row from 0.
    """
    mask = tokens.mask.to(tokens.log_prob.dtype)
    log_ratio = (tokens.log_prob - tokens.old_log_prob).detach() * mask
    zeros = mask.new_zeros(len(groups), int(groups.max()) + 1)
    mean = zeros.scatter_add(1, groups, log_ratio) / zeros.scatter_add(1, groups, mask).clamp(min=1)
    gradient = tokens.log_prob - tokens.log_prob.detach()
    return (gradient + mean.gather(1, groups)).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
