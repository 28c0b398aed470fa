"""The contract of a text world.

A world is a :class:`TextEnv`: text comes in, text goes out. It knows nothing of tokens, models, prompt templates or
turn budgets. The same :class:`Task` is the same world on every machine and in every process.

What each return value means for training (the meaning is Gymnasium's):

* ``terminated`` - the task itself ended, solved or lost; nothing can be earned after it.
* ``truncated`` - the world stopped for a reason outside the task, such as its own step limit.
* ``reward`` - what this one step earned. Rewards lie in [0, 1] and so does their sum over an episode; raw scores stay
  in ``info``.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from agentgym_rl.envs.actions import Action, ActionFormat, InvalidAction, format_react, parse_react
from agentgym_rl.envs.item_ids import index_of
from agentgym_rl.envs.tools import Tool

Style = Literal["agentgym", "compact"]
"""How a world words its instruction and observations: as AgentGym does, or briefly for small models."""

T = TypeVar("T")

Message = dict[str, str]
"""One chat message: ``{"role": "system" | "user" | "assistant", "content": text}``."""


class EnvError(Exception):
    """Base of everything that can go wrong with a world and is not the agent's doing."""


class UnknownEnv(EnvError):
    """No world of that name is installed."""


class MissingExtra(EnvError):
    """The world needs a package that is not installed; the message names the pip command."""


class TaskNotFound(EnvError):
    """The item id is malformed or outside the world's tasks."""


class EnvUnavailable(EnvError):
    """The world cannot be reached or has died. The whole episode may be retried."""


class EnvTimeout(EnvError):
    """The world did not answer in time. The step may have happened: retry the episode, never the step."""


class ProtocolError(EnvError):
    """A call out of order (a step before reset or after the end) or an answer that makes no sense."""


class OracleUnavailable(EnvError):
    """No solving action sequence can be computed for this task."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task of one world. ``str(task)`` is AgentGym's item id, e.g. ``textcraft_12``."""

    env: str
    index: int

    def __str__(self) -> str:
        return f"{self.env}_{self.index}"

    @classmethod
    def parse(cls, item_id: str) -> Task:
        """Read an item id. AgentGym's prefixes ``lmrlgym_`` and ``tool_`` are dropped; ALFWorld's games may be named.

        Raises:
            TaskNotFound: the id is neither ``<env>_<integer>`` nor the name of a game of ALFWorld's.
        """
        match = re.fullmatch(r"(?:(?:lmrlgym|tool)_)?([a-z][a-z0-9_]*)_(\d+)", item_id)
        if match is None:
            if (game := index_of(item_id)) is not None:
                return cls("alfworld", game)
            raise TaskNotFound(f"{item_id!r} is not an item id; expected <env>_<integer>, such as textcraft_12")
        return cls(match[1], int(match[2]))


@dataclass(frozen=True, slots=True)
class Observation:
    """What the agent reads."""

    text: str
    actions: tuple[str, ...] | None = None
    """The actions that are possible now, where the world can list them."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one action led to. ``info["invalid"]`` is true when the world could not carry the action out."""

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """What is fixed about a world, whichever task is played."""

    name: str
    instructions: Mapping[Style, str]
    """The instruction in each wording."""
    splits: Mapping[str, Sequence[int]]
    """Task indices of each split, frozen. ``train`` and ``test`` always exist."""
    max_turns: int
    """Default turn limit of an episode; enforced by the rollout, never by the world."""
    success_above: float
    """An episode is a success when its summed reward is greater than this (AgentGym's thresholds)."""
    tools: tuple[Tool, ...] = ()
    """The actions as functions, for function calling and code as action."""
    read: Callable[[str], Action | InvalidAction] = parse_react
    """How a ReAct reply is read."""
    write: Callable[[str, str], str] = format_react
    """From a command and a thought to the ReAct reply that carries it."""
    raw_reward_range: tuple[float, float] = (0.0, 1.0)
    deterministic: bool = True
    """The same task and actions give the same observations and rewards."""
    replayable: bool = True
    """A prefix of actions can be replayed in a fresh session to reach the same state."""
    extra: str | None = None
    """The pip extra that brings the world's packages."""
    licence: str = ""
    """Licence and origin of the world's data."""

    @property
    def action_formats(self) -> tuple[ActionFormat, ...]:
        """The formats a reply may have."""
        return tuple(ActionFormat) if self.tools else (ActionFormat.REACT,)

    def success(self, episode_reward: float) -> bool:
        return episode_reward > self.success_above

    def conversation_start(self, style: Style) -> list[Message]:
        """The messages that precede the first observation.

        ``agentgym`` puts the instruction in a user message that the assistant acknowledges, as AgentGym's
        trajectories do; ``compact`` puts it in the system message.
        """
        if style == "compact":
            return [{"role": "system", "content": self.instructions[style]}]
        return [
            {"role": "user", "content": self.instructions[style]},
            {"role": "assistant", "content": ACKNOWLEDGEMENT},
        ]


ACKNOWLEDGEMENT = "OK. I'll follow your instructions and try my best to solve the task."
"""The assistant's fixed second message in AgentGym's conversations (a protocol constant)."""


class TextEnv(ABC):
    """One session of a world. Reset, step until done, close; a session can be reset again.

    Worlds are found by the entry-point group ``agentgym_rl.envs``, so a package of yours adds one without touching
    this one. Construct through :func:`agentgym_rl.envs.make`.
    """

    name: ClassVar[str]

    def __init__(self, style: Style = "agentgym") -> None:
        if style not in ("agentgym", "compact"):
            raise ValueError(f"style {style!r} is unknown; choose agentgym or compact")
        self.style: Style = style

    @property
    @abstractmethod
    def spec(self) -> EnvSpec:
        """The fixed facts of this world."""

    @abstractmethod
    async def reset(self, task: Task) -> Observation:
        """Start ``task`` afresh and return its first observation.

        Raises:
            TaskNotFound: the task's index is outside the world.
        """

    @abstractmethod
    async def step(self, action: str) -> Step:
        """Carry out one action. An action the world cannot understand is an observation, never an exception.

        Raises:
            ProtocolError: no task was reset, or the episode is over.
        """

    async def close(self) -> None:
        """Free what the session holds. May be called twice."""
        return None

    @abstractmethod
    def goal(self, task: Task) -> str:
        """The task in one line of text; part of a panel's hash, so that a changed world changes the hash."""

    @abstractmethod
    def difficulty(self, task: Task) -> str:
        """A short label to group results by, e.g. ``depth 2``. Cheap: called for whole splits."""

    def oracle(self, task: Task) -> list[str]:
        """Actions that solve the task.

        Raises:
            OracleUnavailable: none can be computed.
        """
        raise OracleUnavailable(f"{self.spec.name} has no oracle")

    def splits_of(self, task: Task) -> list[str]:
        """The splits that contain the task."""
        return [name for name, indices in self.spec.splits.items() if task.index in indices]


THREADS = ThreadPoolExecutor(64, "world")
"""For all blocking worlds of a process. Python's default pool is that of tokenizing, which must not wait for worlds."""


class BlockingEnv(TextEnv):
    """A world whose code blocks; its calls run in threads so that no other episode waits for them."""

    @abstractmethod
    def reset_blocking(self, task: Task) -> Observation: ...

    @abstractmethod
    def step_blocking(self, action: str) -> Step: ...

    def close_blocking(self) -> None:
        """Free what the session holds."""

    async def reset(self, task: Task) -> Observation:
        return await self._in_thread(self.reset_blocking, task)

    async def step(self, action: str) -> Step:
        return await self._in_thread(self.step_blocking, action)

    async def close(self) -> None:
        await self._in_thread(self.close_blocking)

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(THREADS, call, *arguments)
