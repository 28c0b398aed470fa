"""Clients, tasks, agents and their evaluation, with AgentGym's names."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from agentgym_rl.compat.agentenv.controller import types
from agentgym_rl.compat.agentenv.controller.types import *  # noqa: F403
from agentgym_rl.compat.agentenv.controller.types import (
    ActionFormat,
    APIConversationMessage,
    ConversationMessage,
    EvaluationOutput,
    ExperienceOutput,
    StepOutput,
)

__all__ = ["Agent", "BaseAgentEnvController", "BaseEnvClient", "BaseTask", "Evaluator", *types.__all__]

DEFAULT = "default"
"""The name of ReAct in AgentGym's evaluation script."""
FULL = (1, 100)
"""Rewards that AgentGym counts as success."""

Response = str | tuple[str, str | None]
"""The agent's message, alone or with its reasoning, which the environment does not get."""
Indices = Sequence[int] | Sequence[Sequence[int]]
"""Tasks of the first environment, or of each environment."""


class BaseEnvClient(ABC):
    """An environment as a script uses it."""

    conversation_start: tuple[ConversationMessage, ...]

    def __init__(self, action_format: str | ActionFormat = ActionFormat.REACT) -> None:
        self.action_format = ActionFormat.REACT if action_format == DEFAULT else ActionFormat(action_format)

    @abstractmethod
    def __len__(self) -> int:
        """Number of tasks."""

    @abstractmethod
    def observe(self) -> str:
        """The present observation."""

    @abstractmethod
    def step(self, action: str) -> StepOutput:
        """Carry out the action of a model's response."""

    @abstractmethod
    def reset(self, idx: int) -> Any:
        """Start a task."""


class Agent(Protocol):
    """An object that answers a conversation; AgentGym's ``APIAgent`` is one."""

    def generate(self, conversation: list[APIConversationMessage]) -> Response: ...


Speaker = Agent | Callable[[list[APIConversationMessage]], Response]
"""An agent, or a function from messages to text."""


class BaseTask:
    """Tasks of one environment.

    Args:
        client_args: arguments of the client class.
        n_clients: clients to make; episodes run one after the other in the first.
    """

    env_client_cls: ClassVar[Callable[..., BaseEnvClient]]
    env_name: ClassVar[str]

    def __init__(self, client_args: Mapping[str, Any], n_clients: int = 1) -> None:
        if n_clients < 1:
            raise ValueError(f"n_clients is {n_clients}; give at least 1")
        self.clients = [type(self).env_client_cls(**client_args) for _ in range(n_clients)]
        self.len = len(self.clients[0])

    def generate_experience(
        self, agent: Speaker, idxs: Sequence[int] | int, generation_config: Any = None, max_rounds: int | None = None
    ) -> list[ExperienceOutput]:
        """Run an episode of each task, until its end or for ``max_rounds`` responses.

        ``generation_config`` is ignored: the agent decides how it samples.
        """
        listed = [idxs] if isinstance(idxs, int) else idxs
        return [_run_episode(agent, self.clients[0], idx, max_rounds) for idx in listed]


class BaseAgentEnvController:
    """An agent, and its tasks."""

    def __init__(self, agent: Speaker, tasks: Sequence[BaseTask]) -> None:
        self.agent = agent
        self.tasks = tasks

    def generate_experience(
        self, idxs: Indices | None = None, generation_config: Any = None, max_rounds: int | None = None
    ) -> list[ExperienceOutput]:
        """Run an episode of each of the tasks; of all tasks where ``idxs`` is None.

        Raises:
            ValueError: ``idxs`` has lists for another number of environments.
        """
        of_each = [range(task.len) for task in self.tasks] if idxs is None else _of_each(idxs)
        one_list = idxs is not None and all(isinstance(idx, int) for idx in idxs)
        tasks = self.tasks[:1] if one_list else self.tasks
        if len(of_each) != len(tasks):
            raise ValueError(f"idxs has lists for {len(of_each)} environments, there are {len(tasks)}")
        return [
            experience
            for task, listed in zip(tasks, of_each, strict=True)
            for experience in task.generate_experience(self.agent, listed, generation_config, max_rounds)
        ]


class Evaluator(BaseAgentEnvController):
    """Runs episodes and averages their rewards."""

    def eval(
        self, generation_config: Any = None, max_rounds: int | None = None, idxs: Indices | None = None
    ) -> EvaluationOutput:
        """See :meth:`generate_experience`. Raises ValueError: there is no task."""
        experiences = self.generate_experience(idxs, generation_config, max_rounds)
        if not experiences:
            raise ValueError("idxs is empty; name at least one task")
        rewards = [experience.reward for experience in experiences]
        return EvaluationOutput(
            experiences=experiences,
            score=sum(rewards) / len(rewards),
            success=sum(reward in FULL for reward in rewards) / len(rewards),
        )


def _of_each(idxs: Indices) -> list[Sequence[int]]:
    tasks = [idx for idx in idxs if isinstance(idx, int)]
    lists = [idx for idx in idxs if not isinstance(idx, int)]
    if tasks and lists:
        raise ValueError("idxs mixes tasks and lists of tasks; give one or the other")
    return lists or [tasks]


def _run_episode(agent: Speaker, client: BaseEnvClient, idx: int, max_rounds: int | None) -> ExperienceOutput:
    client.reset(idx)
    conversation = [*client.conversation_start, message("human", client.observe())]
    reward, done, rounds = 0.0, False, 0
    while not done and (max_rounds is None or rounds < max_rounds):
        response = _respond(agent, conversation)
        outcome = client.step(response)
        reward, done, rounds = outcome.reward, outcome.done, rounds + 1
        conversation += [message("gpt", response), message("human", outcome.state)]
    return ExperienceOutput(conversation, reward, "\n".join(message["value"] for message in conversation))


def _respond(agent: Speaker, conversation: list[ConversationMessage]) -> str:
    messages = [
        APIConversationMessage(
            role="user" if message["from"] == "human" else "assistant", content=message["value"], reasoning_content=None
        )
        for message in conversation
    ]
    response = agent(messages) if callable(agent) else agent.generate(messages)
    return response if isinstance(response, str) else response[0]


def message(speaker: str, text: str, trained: bool = True) -> ConversationMessage:
    return {"from": speaker, "loss": trained if speaker == "gpt" else None, "value": text}
