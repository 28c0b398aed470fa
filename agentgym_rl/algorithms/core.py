"""What makes an algorithm, for the engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One word of a recipe."""

    name: str
    estimator: str | None = None
    """verl's advantage estimator; ``None`` when no step goes through verl's policy loss."""
    critic: bool = False
    """Whether a value model is learnt beside the policy."""
    grouped: bool = False
    """Whether episodes are compared with others of their task, so that a task needs two samples or more."""
    step_level: bool = False
    """Whether turns that answered the same observation are compared too."""
    preferences: bool = False
    """Whether pairs of episodes are learnt from, with the loss of :mod:`agentgym_rl.engine.preference`."""
