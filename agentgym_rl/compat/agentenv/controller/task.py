"""Playing tasks with an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from agentgym_rl.compat.agentenv.controller.env import BaseEnvClient
from agentgym_rl.compat.agentenv.controller.types import (
    APIConversationMessage,
    ConversationMessage,
    ExperienceOutput,
)

Reply = str | tuple[str, str | None]
"""The agent's message, alone or with its reasoning, which is dropped from what the environment sees."""


class Agent(Protocol):
    """Anybody who replies to a conversation; AgentGym's ``APIAgent`` is one."""

    def generate(self, conversation: list[APIConversationMessage]) -> Reply: ...


Speaker = Agent | Callable[[list[APIConversationMessage]], Reply]
"""An agent, or simply a function from messages to text."""


class BaseTask:
    """Tasks of one environment.

    Args:
        client_args: arguments of the client class.
        n_clients: clients to make; episodes are played one after the other in the first.
    """

    env_client_cls: ClassVar[Callable[..., BaseEnvClient]]
    env_name: ClassVar[str]

    def __init__(self, client_args: Mapping[str, Any], n_clients: int = 1) -> None:
        if n_clients < 1:
            raise ValueError(f"n_clients is {n_clients}; give at least 1")
        self.clients = [type(self).env_client_cls(**client_args) for _ in range(n_clients)]
        self.len = len(self.clients[0])

    def generate_experience(
        self,
        agent: Speaker,
        idxs: Sequence[int] | int,
        generation_config: Any = None,
        max_rounds: int | None = None,
    ) -> list[ExperienceOutput]:
        """Play the tasks, each until its end or for ``max_rounds`` replies.

        ``generation_config`` is handed to nobody: how an agent samples is its own affair.
        """
        listed = [idxs] if isinstance(idxs, int) else idxs
        return [_play(agent, self.clients[0], idx, max_rounds) for idx in listed]


def _play(agent: Speaker, client: BaseEnvClient, idx: int, max_rounds: int | None) -> ExperienceOutput:
    client.reset(idx)
    conversation = [*client.conversation_start, _message("human", client.observe())]
    reward, done, rounds = 0.0, False, 0
    while not done and (max_rounds is None or rounds < max_rounds):
        reply = _reply(agent, conversation)
        outcome = client.step(reply)
        reward, done, rounds = outcome.reward, outcome.done, rounds + 1
        conversation += [_message("gpt", reply), _message("human", outcome.state)]
    return ExperienceOutput(conversation, reward, "\n".join(message["value"] for message in conversation))


def _reply(agent: Speaker, conversation: list[ConversationMessage]) -> str:
    messages = [
        APIConversationMessage(
            role="user" if message["from"] == "human" else "assistant",
            content=message["value"],
            reasoning_content=None,
        )
        for message in conversation
    ]
    said = agent(messages) if callable(agent) else agent.generate(messages)
    return said if isinstance(said, str) else said[0]


def _message(speaker: str, text: str) -> ConversationMessage:
    return {"from": speaker, "loss": True if speaker == "gpt" else None, "value": text}
