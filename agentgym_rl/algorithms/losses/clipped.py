"""The clipped loss of a probability ratio, which several losses share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from agentgym_rl.algorithms.checks import above
from agentgym_rl.algorithms.losses.base import Loss, LossConfig, Tokens

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(kw_only=True)
class ClippedConfig(LossConfig):
    """Keys of a loss that clips the ratio."""

    clip: float = 0.2
    """How far the probability ratio may fall below 1, and rise above it."""
    clip_high: float | None = None
    """How far it may rise above 1 (clip-higher, DAPO, arXiv 2503.14476); null takes ``clip``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 0, "clip", *(["clip_high"] if self.clip_high is not None else []))

    def clip_ratio(self, ratio: Tensor) -> Tensor:
        """The ratio within its bounds."""
        return ratio.clamp(1 - self.clip, 1 + (self.clip if self.clip_high is None else self.clip_high))


C = TypeVar("C", bound=ClippedConfig)


class Clipped(Loss[C]):
    """The greater of the loss and the loss with a clipped ratio; a subclass says whose ratio a token has."""

    Config = ClippedConfig

    def log_ratio(self, tokens: Tokens) -> Tensor:
        """[rows, tokens]: logarithm of the ratio."""
        return tokens.log_ratio

    def __call__(self, tokens: Tokens) -> Tensor:
        free, bound = self._sides(tokens)
        return free.maximum(bound)

    def clipped(self, tokens: Tokens) -> Tensor:
        free, bound = self._sides(tokens)
        return bound > free

    def _sides(self, tokens: Tokens) -> tuple[Tensor, Tensor]:
        ratio = self.log_ratio(tokens).exp()
        return -tokens.advantages * ratio, -tokens.advantages * self.config.clip_ratio(ratio)
