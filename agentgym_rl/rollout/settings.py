"""The rules of an episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum, StrEnum
from typing import Any, TypeVar

from agentgym_rl.envs.actions import ActionFormat

E = TypeVar("E", bound=Enum)


class Style(StrEnum):
    """Wording of instructions and observations."""

    agentgym = "agentgym"
    compact = "compact"
    verl_agent = "verl_agent"


class Context(StrEnum):
    """What the model sees of a conversation."""

    full = "full"
    """Everything; the episode ends when the context is full."""
    window = "window"
    """The instruction, the first observation and the last turns, at every turn."""
    fold = "fold"
    """Everything, until the context is full; then it goes on with what ``window`` shows."""
    summary = "summary"
    """The same as ``fold``, and notes that the model writes before earlier turns are hidden."""
    recent = "recent"
    """A prompt of its own at every turn, in the words of the style (``verl_agent``): the task, the number of steps, and
    observations and actions of the last turns."""


class Thinking(StrEnum):
    """What the model sees of its thinking in earlier turns."""

    keep = "keep"
    """All of it, as sampled."""
    strip = "strip"  # type: ignore[assignment]  # a string's method of that name, which nobody calls on a choice
    """Nothing: each turn's prompt is what the chat template renders of the conversation."""


@dataclass(kw_only=True)
class RolloutSettings:
    """Limits and wording of an episode, for training and evaluation alike.

    A plain dataclass that OmegaConf reads too. A choice may be given as its text.

    Raises:
        ValueError: a value is out of range or no such choice; names the key.
    """

    style: Style = Style.agentgym
    """Wording of instruction and observations: ``agentgym``, ``compact`` or, in ALFWorld and WebShop, ``verl_agent``,
    whose prompts are verl-agent's."""
    action_format: ActionFormat = ActionFormat.react
    """How a response carries its action: ``react`` (as the wording has it), ``function_calling``, ``code_as_action`` or
    ``tags``."""
    max_turns: int | None = None
    """Turn limit; ``None`` takes each environment's own."""
    max_new_tokens: int = 512
    """Most tokens of one response."""
    context: Context | None = None
    """What the model sees of a conversation: ``full``, ``window``, ``fold``, ``summary`` or ``recent``; null takes the
    style's, ``recent`` of ``verl_agent`` and ``full`` of others."""
    keep_turns: int = 2
    """Earlier turns that a folded conversation, or a prompt of its own, still shows (all but full)."""
    notes_tokens: int = 128
    """Most tokens of the model's notes (summary)."""
    thinking: Thinking = Thinking.keep
    """What the model sees of its thinking in earlier turns: ``keep`` or ``strip``, for templates that drop it."""
    invalid_limit: int | None = None
    """End an episode after this many invalid actions in a row; ``None`` never does."""
    step_seconds: float = 60.0
    """Most seconds for one call of an environment."""
    episode_seconds: float = 1800.0
    """Most seconds for one attempt at an episode."""
    retries: int = 2
    """Further attempts at an episode whose infrastructure failed."""

    def __post_init__(self) -> None:
        self.style = choice(Style, "style", self.style)
        self.action_format = choice(ActionFormat, "action_format", self.action_format)
        whole_prompts = self.style is Style.verl_agent
        if self.context is None:
            self.context = Context.recent if whole_prompts else Context.full
        self.context = choice(Context, "rollout.context", self.context)
        if (self.context is Context.recent) != whole_prompts:
            raise ValueError(
                f"rollout.context={self.context.value} does not go with style={self.style.value}: recent and "
                "verl_agent go with each other only"
            )
        self.thinking = choice(Thinking, "rollout.thinking", self.thinking)
        for name in ("max_new_tokens", "keep_turns", "notes_tokens", "step_seconds", "episode_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"rollout.{name} must be greater than 0, got {getattr(self, name)}")
        for name in ("max_turns", "invalid_limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; give at least 1")
        if self.retries < 0:
            raise ValueError(f"rollout.retries must not be negative, got {self.retries}")

    @property
    def one_segment(self) -> bool:
        """Whether the tokens of an episode are one sequence, however long it is."""
        return self.context is Context.full and self.thinking is Thinking.keep

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> RolloutSettings:
        """Read a mapping (``data.agentgym`` of a verl configuration).

        Raises:
            ValueError: a key is unknown or a value out of range.
        """
        known = {field.name for field in fields(cls)}
        if unknown := set(values) - known:
            raise ValueError(f"unknown rollout settings {sorted(unknown)}; known: {sorted(known)}")
        return cls(**values)


def choice(kind: type[E], key: str, value: str | E) -> E:
    """The member of an Enum that a value names.

    Raises:
        ValueError: there is none; lists the choices.
    """
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{key} {value!r} is unknown; choose {', '.join(choice.value for choice in kind)}") from None
