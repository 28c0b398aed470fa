"""The rules an episode is played by."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import Style

Context = Literal["full", "window", "summary"]


@dataclass(kw_only=True)
class RolloutSettings:
    """Limits and wording of an episode; the same for training and evaluation unless a row says otherwise."""

    style: Style = "agentgym"
    """Wording of instruction and observations: ``agentgym`` or ``compact``."""
    action_format: ActionFormat = ActionFormat.REACT
    """How a reply carries its action: ``react``, ``function_calling`` or ``code_as_action``."""
    max_turns: int | None = None
    """Turn limit; ``None`` takes each world's own."""
    turn_tokens: int = 512
    """Most tokens of one reply."""
    context: Context = "full"
    """What the model sees of a conversation that grows too long: ``full`` ends the episode; ``window`` goes on with the
    last turns; ``summary`` also with notes that the model writes before."""
    keep_turns: int = 2
    """Turns that a folded conversation still shows (window, summary)."""
    notes_tokens: int = 128
    """Most tokens of the model's notes (summary)."""
    invalid_limit: int | None = None
    """End an episode after this many invalid actions in a row; ``None`` never does."""
    step_seconds: float = 60.0
    """Most seconds for one call of a world."""
    episode_seconds: float = 1800.0
    """Most seconds for one attempt at an episode."""
    retries: int = 2
    """Further attempts at an episode whose infrastructure failed."""

    def __post_init__(self) -> None:
        if self.context not in get_args(Context):
            raise ValueError(f"rollout.context={self.context!r} is unknown; choose {', '.join(get_args(Context))}")
        for name in ("turn_tokens", "keep_turns", "notes_tokens", "step_seconds", "episode_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"rollout.{name} must be greater than 0, got {getattr(self, name)}")
        for name in ("max_turns", "invalid_limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"rollout.{name} must be at least 1 or null, got {value}")
        if self.retries < 0:
            raise ValueError(f"rollout.retries must not be negative, got {self.retries}")

    @classmethod
    def from_mapping(cls, values: Any) -> RolloutSettings:
        """Read a mapping (``data.agentgym`` of a verl configuration).

        Raises:
            ValueError: a key is unknown or a value out of range.
        """
        known = {field.name for field in fields(cls)}
        unknown = set(values) - known
        if unknown:
            raise ValueError(f"unknown rollout settings {sorted(unknown)}; known: {sorted(known)}")
        values = dict(values)
        if "action_format" in values:
            values["action_format"] = ActionFormat(values["action_format"])
        return cls(**values)
