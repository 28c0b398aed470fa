"""A setting in the population of :mod:`.frontier`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agentgym_rl.algorithms.mixture.posterior import Posterior
from agentgym_rl.algorithms.mixture.space import Settings

WRITER = "writer"
"""The parent of a setting that a writer proposed."""


@dataclass(slots=True)
class Individual:
    """A setting that lives, or lived."""

    name: str
    """Of the part of the environment that has it."""
    env: str
    """The environment of the recipe."""
    settings: Settings
    born: int
    """Steps before its birth."""
    parents: list[str]
    """None of one that was drawn."""
    episodes: int = 0
    success: Posterior = field(default_factory=Posterior)
    died: int | None = None
    """Steps before it left."""

    def state_dict(self) -> dict[str, Any]:
        """With the estimated success rate, for readers."""
        return {**asdict(self), "success": self.success.state_dict(), "estimate": self.success.mean}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Individual:
        """The inverse of :meth:`state_dict`."""
        own = {key: value for key, value in state.items() if key != "estimate"}
        return cls(**{**own, "success": Posterior.from_state(state["success"])})
