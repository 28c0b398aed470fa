"""A clipped loss of rows that another prompt sampled, beside rows as they were sampled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentgym_rl.algorithms.losses.base import Loss, Tokens
from agentgym_rl.algorithms.losses.clipped import ClippedConfig

if TYPE_CHECKING:
    from torch import Tensor

SAMPLED = "sampled"
"""Stream of log-probabilities by the weights and the prompt that sampled."""
MOVED = "moved"
"""Stream of the rows: 1 where another prompt sampled, else 0."""


class OffPolicy(Loss[ClippedConfig]):
    """A clipped loss relative to whatever sampled; rows that were moved to another prompt have their own upper clip."""

    Config = ClippedConfig
    streams = frozenset({"advantage", "turn", SAMPLED, MOVED})
    relative = False

    def __init__(self, loss: Loss[Any], clip_high: float) -> None:
        super().__init__(replace(loss.config, clip_high=clip_high))
        self.plain, self.moved = loss, type(loss)(self.config)

    def __call__(self, tokens: Tokens) -> Tensor:
        tokens = _sampled(tokens)
        return self.moved(tokens).where(tokens.streams[MOVED] > 0, self.plain(tokens))

    def clipped(self, tokens: Tokens) -> Tensor:
        tokens = _sampled(tokens)
        return self.moved.clipped(tokens).where(tokens.streams[MOVED] > 0, self.plain.clipped(tokens))


def _sampled(tokens: Tokens) -> Tokens:
    return replace(tokens, old_log_prob=tokens.streams[SAMPLED])
