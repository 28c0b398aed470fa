"""The loss of preferences (DPO, arXiv 2305.18290, equation 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from agentgym_rl.algorithms.checks import above
from agentgym_rl.algorithms.losses.base import Loss, LossConfig, Tokens

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(kw_only=True)
class PreferenceConfig(LossConfig):
    """Keys of :class:`Preference`."""

    beta: float = 0.1
    """How strongly the policy is tied to the reference, which is the policy as the update begins."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 0, "beta")


class Preference(Loss[PreferenceConfig]):
    """The loss of a pair: of rows 2i and 2i + 1, the first is preferred."""

    Config = PreferenceConfig
    streams = frozenset()
    rows_together = 2
    temperature: ClassVar[float | None] = 1.0
    label = "dpo"

    def __call__(self, tokens: Tokens) -> Tensor:
        from torch.nn.functional import logsigmoid  # recipes are composed without torch

        return -logsigmoid(self._margin(tokens))

    def metrics(self, tokens: Tokens) -> Mapping[str, Tensor]:
        margin = self._margin(tokens)
        return {"margin": margin, "accuracy": (margin > 0).to(margin.dtype)}

    def weighed(self, tokens: Tokens) -> Tensor:
        """[rows]: the logarithm of each row's ratio to the reference, times beta."""
        policy, reference = (
            values.where(tokens.mask, 0.0).sum(-1) for values in (tokens.log_prob, tokens.old_log_prob)
        )
        return self.config.beta * (policy - reference)

    def _margin(self, tokens: Tokens) -> Tensor:
        """[rows, 1], the same for both rows of a pair: of which the loss is the log-sigmoid."""
        preferred, rejected = self.weighed(tokens).view(-1, 2).unbind(1)
        return (preferred - rejected).repeat_interleave(2).unsqueeze(-1)
