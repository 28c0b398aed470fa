"""The sessions inside a worker, and the process behind :mod:`agentgym_rl.envs.hosts.process`.

Arguments and results are JSON values, as :mod:`agentgym_rl.envs.rpc` sends them.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from agentgym_rl.envs import rpc
from agentgym_rl.envs.core import EnvUnavailable, Observation, Step, Task, TextEnv
from agentgym_rl.envs.registry import make

CLOSE_S = 5.0
"""Most seconds for closing the sessions at the end."""


class Sessions:
    """Sessions by number. Calls of one session must follow one another; those of several may overlap."""

    def __init__(self) -> None:
        self._open: dict[int, TextEnv] = {}

    async def call(self, method: str, *arguments: Any) -> Any:
        """A method by its name; ``ready`` only answers."""
        methods: dict[str, Callable[..., Awaitable[Any]]]
        methods = {"ready": self._ready, "reset": self._reset, "step": self._step, "close": self._close}
        return await methods[method](*arguments)

    async def _ready(self) -> None:
        return None

    async def _reset(self, number: int, name: str, options: Mapping[str, Any], env: str, index: int) -> list[Any]:
        """Reset a session, which is opened if it is not yet open."""
        if number not in self._open:
            self._open[number] = make(name, **options)
        session = self._open[number]
        try:
            return _write_observation(await session.reset(Task(env, index)))
        finally:
            if self._open.get(number) is not session:  # a caller that gave up has closed it; the reset went on
                await session.close()

    async def _step(self, number: int, action: str) -> list[Any]:
        if number not in self._open:
            raise EnvUnavailable(f"session {number} is gone")
        return _write_step(await self._open[number].step(action))

    async def _close(self, number: int) -> None:
        session = self._open.pop(number, None)
        if session is not None:
            await session.close()

    async def close_all(self) -> None:
        """Close every session, whatever becomes of the others."""
        await asyncio.gather(*map(self._close, list(self._open)), return_exceptions=True)


def _write_observation(observation: Observation) -> list[Any]:
    return [observation.text, observation.actions]


def read_observation(result: list[Any]) -> Observation:
    """An observation from the result of ``reset``."""
    text, actions = result
    return Observation(text, None if actions is None else tuple(actions))


def _write_step(step: Step) -> list[Any]:
    observation = _write_observation(step.observation)
    return [observation, float(step.reward), bool(step.terminated), bool(step.truncated), dict(step.info)]


def read_step(fields: list[Any]) -> Step:
    """A step from the result of ``step``."""
    return Step(read_observation(fields[0]), *fields[1:])


async def main(connection: socket.socket) -> None:
    """Answer calls until the other end closes the connection."""
    sessions = Sessions()
    await rpc.serve(*await asyncio.open_connection(sock=connection), sessions.call)
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await sessions.close_all()


if __name__ == "__main__":
    asyncio.run(main(socket.socket(fileno=int(sys.argv[1]))))
    os._exit(0)  # a thread that hangs in an environment must not keep the process
