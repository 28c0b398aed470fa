"""Clients of environments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from agentgym_rl.compat.agentenv.controller.types import ActionFormat, ConversationMessage, StepOutput

DEFAULT = "default"
"""AgentGym's evaluation script says this for ReAct."""


class BaseEnvClient(ABC):
    """One environment, seen by a script."""

    conversation_start: tuple[ConversationMessage, ...]

    def __init__(self, action_format: str | ActionFormat = ActionFormat.REACT) -> None:
        self.action_format = ActionFormat.REACT if action_format == DEFAULT else ActionFormat(action_format)

    @abstractmethod
    def __len__(self) -> int:
        """Number of tasks."""

    @abstractmethod
    def observe(self) -> str:
        """What the agent sees now."""

    @abstractmethod
    def step(self, action: str) -> StepOutput:
        """Carry out a model's reply."""

    @abstractmethod
    def reset(self, idx: int) -> Any:
        """Start a task."""
