"""A loss that takes its advantages from a teacher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentgym_rl.algorithms.losses.base import Loss, LossConfig, Tokens

if TYPE_CHECKING:
    from torch import Tensor

TEACHER = "teacher"
"""Name of a teacher among the models of a run, and of the stream of its log-probabilities."""


class ReverseKL(Loss[LossConfig]):
    """Another loss, with the teacher's log-probability less the policy's as the update began for an advantage."""

    streams = frozenset({TEACHER, "turn"})

    def __init__(self, loss: Loss[Any]) -> None:
        super().__init__(loss.config)
        self.plain = loss

    def __call__(self, tokens: Tokens) -> Tensor:
        return self.plain(_judged(tokens))

    def clipped(self, tokens: Tokens) -> Tensor:
        return self.plain.clipped(_judged(tokens))

    def metrics(self, tokens: Tokens) -> Mapping[str, Tensor]:
        """``reverse_kl``: of the tokens that the policy sampled, an estimate of its divergence from the teacher."""
        return {"reverse_kl": -_judged(tokens).advantages}


def _judged(tokens: Tokens) -> Tokens:
    return replace(tokens, streams={**tokens.streams, "advantage": tokens.streams[TEACHER] - tokens.old_log_prob})
