"""Sessions that run elsewhere, and what they share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from agentgym_rl.envs.core import EnvSpec, Task, TextEnv

T = TypeVar("T")


class Elsewhere(TextEnv):
    """A session elsewhere of a world that is installed here: fixed facts come from here, play happens there."""

    def __init__(self, facts: TextEnv) -> None:
        super().__init__(facts.style)
        self.facts = facts

    @property
    def spec(self) -> EnvSpec:
        return self.facts.spec

    def goal(self, task: Task) -> str:
        return self.facts.goal(task)

    def difficulty(self, task: Task) -> str:
        return self.facts.difficulty(task)

    def oracle(self, task: Task) -> list[str]:
        return self.facts.oracle(task)


class PerLoop(Generic[T]):
    """One thing for each event loop that asks for it; things of closed loops are dropped."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T:
        """The thing of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made = {other: made for other, made in self._made.items() if not other.is_closed()}
            self._made[loop] = self._make()
        return self._made[loop]

    def pop(self) -> T | None:
        """The thing of the running loop, which is forgotten; None where there is none."""
        return self._made.pop(asyncio.get_running_loop(), None)
