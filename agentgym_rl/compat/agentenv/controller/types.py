"""The data of clients, tasks and evaluations."""

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
"""A message as in trajectory files: ``from`` is human or gpt, ``loss`` is true for messages of the agent."""


class APIConversationMessage(TypedDict):
    """A message for an agent: ``role`` is user or assistant."""

    role: str
    content: str
    reasoning_content: str | None


@dataclass
class StepOutput:
    """The result of an action."""

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
    """The result of an evaluation."""

    experiences: list[ExperienceOutput]
    score: float
    """Mean reward."""
    success: float
    """Share of the episodes whose reward is 1 or 100."""
