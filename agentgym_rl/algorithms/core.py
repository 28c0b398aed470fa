"""What makes an algorithm, for the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Advantages = Callable[[Sequence[float], Sequence[str]], Sequence[float]]
"""From the rewards of a step's episodes, and for each the group (its task) it belongs to, to an advantage each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One word of a recipe."""

    name: str
    estimator: str | None = None
    """verl's advantage estimator; ``None`` when no step goes through verl's policy loss."""
    advantages: Advantages | None = None
    """How ``estimator`` is computed where verl has none of that name; every token of an episode has its advantage."""
    critic: bool = False
    """Whether a value model is learnt beside the policy."""
    grouped: bool = False
    """Whether episodes are compared with others of their task, so that a task needs two samples or more."""
    step_level: bool = False
    """Whether turns that answered the same observation are compared too."""
    preferences: bool = False
    """Whether pairs of episodes are learnt from, with the loss of :mod:`agentgym_rl.engine.verl.preference`."""
