"""Clipping by the ratio of a turn, so that it is clipped as one decision (the chunks of ROME, arXiv 2512.24873)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym_rl.algorithms.losses.base import Tokens
from agentgym_rl.algorithms.losses.clipped import Clipped, ClippedConfig
from agentgym_rl.algorithms.losses.gspo import mean_log_ratio

if TYPE_CHECKING:
    from torch import Tensor


class Turn(Clipped[ClippedConfig]):
    """The geometric mean of the ratios of a turn; the gradient is that of each token."""

    streams = frozenset({"advantage", "turn"})

    def log_ratio(self, tokens: Tokens) -> Tensor:
        return mean_log_ratio(tokens, tokens.streams["turn"].long())
