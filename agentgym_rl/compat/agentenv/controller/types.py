"""What goes back and forth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from agentgym_rl.envs.actions import ActionFormat

__all__ = [
    "APIConversationMessage",
    "ActionFormat",
    "ConversationMessage",
    "EvaluationOutput",
    "ExperienceOutput",
    "StepOutput",
]

ConversationMessage = TypedDict("ConversationMessage", {"from": str, "loss": bool | None, "value": str})
"""A message as trajectory files have it: ``from`` is human or gpt, ``loss`` true for what the agent wrote."""


class APIConversationMessage(TypedDict):
    """A message as agents are given it: ``role`` is user or assistant."""

    role: str
    content: str
    reasoning_content: str | None


@dataclass
class StepOutput:
    """What an action led to."""

    state: str
    reward: float
    """AgentGym's: the score so far for BabyAI and SciWorld, elsewhere that of the step."""
    done: bool


@dataclass
class ExperienceOutput:
    """An episode. The lists of tokens stay empty: agents here speak text."""

    conversation: list[ConversationMessage]
    reward: float
    """That of the last step."""
    text: str = ""
    """All messages, one after the other."""
    seq_ids: list[int] = field(default_factory=list)
    attention_mask: list[int] = field(default_factory=list)
    action_mask: list[int] = field(default_factory=list)


@dataclass
class EvaluationOutput:
    """What an evaluation came to."""

    experiences: list[ExperienceOutput]
    score: float
    """Mean reward."""
    success: float
    """Part of the episodes whose reward is 1 or 100."""
