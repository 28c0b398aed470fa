"""Responses that an episode begins with, before the model's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A response that is replayed: token for token where its tokens are known, else its text."""

    text: str = ""
    """Read where there are no ``ids``: tokenized as a demonstration's response is."""
    ids: Sequence[int] = ()
    """The tokens that were sampled."""
    log_prob: float | None = None
    """Sum of their log-probabilities when they were sampled, in nats; None where they are not known."""
    step: int | None = None
    """Global step of the weights that sampled them; None where none of the run did."""

    def __post_init__(self) -> None:
        if not self.text and not self.ids:
            raise ValueError("a replayed response has neither text nor tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The responses that come first, without a request to the model, and how it goes on after them."""

    responses: Sequence[Replayed]
    learn: bool = False
    """Whether these tokens are learned from, as the model's own are; else their mask is 0."""
    avoid: Sequence[str] = ()
    """Commands that the first response after them should not have."""
    resamples: int = 0
    """How often at most the model is asked again for another command."""

    def to_dict(self) -> dict[str, Any]:
        """JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Prefix:
        """The inverse of :meth:`to_dict`."""
        return cls(**{**data, "responses": [Replayed(**each) for each in data["responses"]]})
