"""What makes an algorithm, for the engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One word of a recipe."""

    name: str
    estimator: str | None = None
    """verl's advantage estimator; ``None`` when nothing but supervised steps are taken."""
    critic: bool = False
    """Whether a value model is learnt beside the policy."""
