"""Many sessions of worlds inside a process or an actor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agentgym_rl.envs.core import EnvUnavailable, Observation, Step, Task, TextEnv
from agentgym_rl.envs.hosts.opener import world_class


class Sessions:
    """Sessions by number. Calls of one session must follow one another; those of several may overlap."""

    def __init__(self) -> None:
        self._open: dict[int, TextEnv] = {}

    async def call(self, method: str, *arguments: Any) -> Any:
        """A method by its name; ``ready`` only answers."""
        methods: dict[str, Callable[..., Awaitable[Any]]]
        methods = {"ready": self.ready, "reset": self.reset, "step": self.step, "close": self.close}
        return await methods[method](*arguments)

    async def ready(self) -> None:
        return None

    async def reset(self, number: int, name: str, options: Mapping[str, Any], task: Task) -> Observation:
        """Reset a session, which is opened if it is not yet open."""
        if number not in self._open:
            self._open[number] = world_class(name)(**options)
        return await self._open[number].reset(task)

    async def step(self, number: int, action: str) -> Step:
        if number not in self._open:
            raise EnvUnavailable(f"session {number} is gone")
        return await self._open[number].step(action)

    async def close(self, number: int) -> None:
        session = self._open.pop(number, None)
        if session is not None:
            await session.close()

    async def close_all(self) -> None:
        while self._open:
            await self._open.popitem()[1].close()
