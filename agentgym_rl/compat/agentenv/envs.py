"""Clients and tasks of AgentGym's environments, with the names that they have there; called without ``await``."""

import atexit
from typing import Any, ClassVar

from agentgym_rl.compat.agentenv.controller import BaseEnvClient, BaseTask, message
from agentgym_rl.compat.agentenv.controller.types import ActionFormat, ConversationMessage, StepOutput
from agentgym_rl.envs.actions import InvalidAction
from agentgym_rl.envs.core import Task
from agentgym_rl.envs.formats import opening, reader
from agentgym_rl.envs.hosts import HostSettings
from agentgym_rl.envs.hosts.remote import RemoteEnv
from agentgym_rl.envs.protocol.wire import dialect
from agentgym_rl.envs.sync import wait

PREFIXES = (
    *("Academia", "AlfWorld", "BabyAI", "Maze", "Movie", "SearchQA", "Sciworld", "Sheet", "SqlGym", "TextCraft"),
    *("Todo", "Weather", "Webarena", "Webshop", "Wordle"),
)
"""Of the classes ``<prefix>EnvClient`` and ``<prefix>Task``; in small letters the name of the environment."""

ENV_NAMES = {
    "Maze": "LMRL-Gym.maze",
    "Sciworld": "SciWorld",
    "SqlGym": "SQLGym",
    "Webshop": "WebShop",
    "Wordle": "LMRL-Gym.wordle",
}
"""``env_name`` of the tasks for which it is not the prefix."""


class EnvClient(BaseEnvClient):
    """An environment on a server. The constructor opens its session; :meth:`close` or the end of Python closes it.

    Args:
        env_server_base: the server's URL.
        data_len: number of tasks, the client's ``len``.
        action_format: how responses carry their action.
        timeout: most seconds for a request.
        kwargs: further arguments of AgentGym's clients, which are ignored.

    Raises:
        EnvUnavailable, EnvTimeout, ProtocolError: there is no such server.
    """

    env: ClassVar[str]
    """Name of the environment."""
    patience: ClassVar[float] = 30.0
    """Most seconds to look for the server."""

    def __init__(
        self,
        env_server_base: str,
        data_len: int,
        action_format: str | ActionFormat = ActionFormat.REACT,
        *,
        timeout: float = 300,
        **kwargs: Any,
    ) -> None:
        super().__init__(action_format)
        self.env_server_base = env_server_base
        self.data_len = data_len
        self.timeout = timeout
        server = HostSettings(kind="remote", address=env_server_base, timeout=timeout, patience=self.patience)
        self._remote = RemoteEnv(self.env, server)
        self._parse = reader(self._remote.spec, self.action_format)
        self._seen: str | None = None
        self.conversation_start = _start(self._remote, self.action_format)
        wait(self._remote.open())
        _OPEN.add(self._remote)

    def __len__(self) -> int:
        return self.data_len

    def observe(self) -> str:
        """The present observation. Raises RuntimeError: no task was started."""
        if self._seen is None:
            raise RuntimeError(f"{self.env}: observe before reset")
        return self._seen

    def reset(self, idx: int = 0) -> dict[str, Any]:
        """Start a task.

        Raises:
            TaskNotFound: there is no such task.
            EnvUnavailable, EnvTimeout, ProtocolError: the server failed.
        """
        self._seen = wait(self._remote.reset(Task(self.env, int(idx)))).text
        return {"observation": self._seen, "reward": 0.0, "done": False}

    def step(self, action: str) -> StepOutput:
        """Carry out the action of a response. For one without a readable action the server is not called.

        Raises:
            ProtocolError: no task was started, or the episode is over.
            EnvUnavailable, EnvTimeout: the server failed, or has lost the session.
        """
        text, protocol = action.removesuffix("</s>"), dialect(self.env)
        if not protocol.whole_response or self.action_format is not ActionFormat.REACT:
            read = self._parse(text)
            if isinstance(read, InvalidAction):
                return StepOutput(read.observation, 0.0, False)
            text = protocol.write_action(self._remote.spec, read.command)
        step = wait(self._remote.send(text))
        self._seen = step.observation.text
        return StepOutput(self._seen, step.info["raw_reward"], step.done)

    def close(self) -> bool:
        """Close the session."""
        _OPEN.discard(self._remote)
        wait(self._remote.close())
        return True


def _start(remote: RemoteEnv, action_format: ActionFormat) -> tuple[ConversationMessage, ...]:
    speakers = {"user": "human", "assistant": "gpt"}
    messages = opening(remote.spec, remote.style, action_format)
    return tuple(message(speakers[entry["role"]], entry["content"], trained=False) for entry in messages)


_OPEN: set[RemoteEnv] = set()
"""Sessions that have not been closed; AgentGym's scripts never close theirs."""


@atexit.register
def _close_all() -> None:
    while _OPEN:
        wait(_OPEN.pop().close())


def _classes() -> dict[str, type]:
    classes: dict[str, type] = {}
    for prefix in PREFIXES:
        client = type(f"{prefix}EnvClient", (EnvClient,), {"env": prefix.lower(), "__module__": __name__})
        members = {"env_client_cls": client, "env_name": ENV_NAMES.get(prefix, prefix), "__module__": __name__}
        task = type(f"{prefix}Task", (BaseTask,), members)
        classes |= {client.__name__: client, task.__name__: task}
    return classes


_CLASSES = _classes()
globals().update(_CLASSES)
__all__ = sorted(_CLASSES)
