"""Environments called without ``await``: for scripts, notebooks and other projects' interfaces."""

import asyncio
import operator
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

from agentgym_rl.envs import registry
from agentgym_rl.envs.core import EnvSpec, Observation, Task, TextEnv

T = TypeVar("T")


def wait(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which runs in an event loop that all callers of the process share."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}
"""By process: a forked one, which has no thread of its parent's, gets its own."""


def _loop() -> asyncio.AbstractEventLoop:
    """An event loop in a thread of its own, for all callers of this process."""
    process = os.getpid()
    if process not in _LOOPS:
        made = asyncio.new_event_loop()
        # One of several first callers wins. A lock would do it, too, but one that is held when the process forks stays
        # held in the child.
        if _LOOPS.setdefault(process, made) is made:
            threading.Thread(target=made.run_forever, name="agentgym_rl.envs.sync", daemon=True).start()
        else:
            made.close()
    return _LOOPS[process]


def outside(call: Callable[[], T]) -> T:
    """The result of a call that starts event loops, also where one runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()


class SyncEnv:
    """A session of an environment with Gymnasium's return values; :class:`TextEnv` lies below.

    Args:
        env: the session, which nothing else uses.
    """

    def __init__(self, env: TextEnv) -> None:
        self.env = env
        self.actions: tuple[str, ...] | None = None
        """The actions that are possible now, where the environment can list them."""

    @property
    def spec(self) -> EnvSpec:
        """The fixed facts of the environment: splits, turn limit, instruction, tools."""
        return self.env.spec

    @property
    def instruction(self) -> str:
        """What the agent is told before the first observation; nothing where each turn has a prompt of its own."""
        return self.spec.instruction(self.env.style)

    def reset(self, task: Task | str | int) -> str:
        """Start a task, such as ``textcraft_12`` or its number 12; returns the first observation.

        Raises:
            TaskNotFound: there is no such task.
            EnvUnavailable, EnvTimeout: the environment cannot start it.
        """
        return self._seen(wait(self.env.reset(self._task(task))))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carry out a command; returns observation, reward, terminated, truncated and info.

        Raises:
            ProtocolError: no task was started, or the episode is over.
            EnvUnavailable, EnvTimeout: the environment failed.
        """
        step = wait(self.env.step(action))
        return self._seen(step.observation), step.reward, step.terminated, step.truncated, dict(step.info)

    def goal(self, task: Task | str | int) -> str:
        """The task in one line of text."""
        return self.env.goal(self._task(task))

    def oracle(self, task: Task | str | int) -> list[str]:
        """Commands that solve the task.

        Raises:
            OracleUnavailable: none can be computed.
        """
        return self.env.oracle(self._task(task))

    def close(self) -> None:
        """End the episode and free what the session holds."""
        wait(self.env.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _seen(self, observation: Observation) -> str:
        self.actions = observation.actions
        return observation.text

    def _task(self, task: Task | str | int) -> Task:
        if isinstance(task, Task):
            return task
        return Task.parse(task) if isinstance(task, str) else Task(self.spec.name, operator.index(task))


def make(name: str, **options: Any) -> SyncEnv:
    """Open a session of an environment, to be called without ``await``.

    Args:
        options: of the environment's class; all take ``style``: ``agentgym``, ``compact``, or
            ``verl_agent`` where there is one.

    Raises:
        UnknownEnv, MissingExtra: see :func:`agentgym_rl.envs.make`.
        ValueError: the environment has no such option.
    """
    registry.check_options(name, options)
    return SyncEnv(registry.make(name, **options))
