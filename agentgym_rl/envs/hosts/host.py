"""The interface of all hosts."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from agentgym_rl.envs.core import EnvSpec, Task, TextEnv
from agentgym_rl.envs.registry import make

T = TypeVar("T")


class EnvHost(ABC):
    """A place where environments run. It opens sessions, which are used and closed like any others."""

    @abstractmethod
    def open(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        """A session of an environment; ``options`` are those of its class. Nothing runs before its first reset.

        Raises:
            UnknownEnv, MissingExtra: see :func:`agentgym_rl.envs.env_class`.
        """

    async def check(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        """Whether an environment can run here, and which of its tasks; ``options`` are those of its class.

        Raises:
            EnvError: it cannot; the message names the host.
        """
        return None

    def facts(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        """A session for its fixed facts: splits, goals and difficulties of the tasks that this host has.

        It blocks where the host has to be asked, and cannot be called in an event loop then.

        Raises:
            EnvError: see :meth:`check`.
        """
        return make(name, **options)

    async def close(self) -> None:
        """Free what the sessions of the running event loop share. Sessions that are still open are lost."""
        return None


class LocalHost(EnvHost):
    """This process: asynchronous environments run in the event loop, blocking ones in threads."""

    def open(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        return make(name, **options)


class EnvProxy(TextEnv):
    """A session that runs elsewhere. Its fixed facts come from the environment as it is installed here."""

    def __init__(self, facts: TextEnv) -> None:
        self.facts, self.style = facts, facts.style

    @property
    def spec(self) -> EnvSpec:
        return self.facts.spec

    def goal(self, task: Task) -> str:
        return self.facts.goal(task)

    def briefing(self, task: Task) -> dict[str, Any]:
        return self.facts.briefing(task)

    def difficulty(self, task: Task) -> str:
        return self.facts.difficulty(task)

    def revision(self, task: Task) -> int:
        return self.facts.revision(task)

    def oracle(self, task: Task) -> list[str]:
        return self.facts.oracle(task)

    def thoughts(self, task: Task) -> list[str]:
        return self.facts.thoughts(task)

    def steps_left(self, task: Task, commands: Sequence[str]) -> list[float] | None:
        return self.facts.steps_left(task, commands)


class PerLoop(Generic[T]):
    """One object for each event loop that asks for it; those of closed loops are dropped."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T:
        """The object of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            for other in list(self._made):  # other threads may add theirs meanwhile
                if other.is_closed():
                    self._made.pop(other, None)
            self._made[loop] = self._make()
        return self._made[loop]

    def pop(self) -> T | None:
        """The object of the running loop, which is then forgotten; None where there is none."""
        return self._made.pop(asyncio.get_running_loop(), None)
