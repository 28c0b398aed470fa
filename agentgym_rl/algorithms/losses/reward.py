"""Preferences of a reward model whose rewards are log-ratios to another policy (iStar, arXiv 2509.19199)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym_rl.algorithms.losses.base import Tokens
from agentgym_rl.algorithms.losses.dpo import Preference

if TYPE_CHECKING:
    from torch import Tensor

REFERENCE_STREAM = "sampled"
"""Log-probabilities of the other policy."""


class ImplicitReward(Preference):
    """The loss of a pair; the reference is a stream, at the temperature of rollouts."""

    streams = frozenset({REFERENCE_STREAM})
    relative = False
    temperature = None
    label = "prm"

    def weighed(self, tokens: Tokens) -> Tensor:
        ratio = tokens.log_prob - tokens.streams[REFERENCE_STREAM]
        return self.config.beta * ratio.where(tokens.mask, 0.0).sum(-1)
