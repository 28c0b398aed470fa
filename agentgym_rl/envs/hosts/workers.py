"""Workers that hold sessions, be they processes or actors: who gets which session, and what happens when one dies."""

from __future__ import annotations

import asyncio
import itertools
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from agentgym_rl.envs.core import EnvError, EnvTimeout, EnvUnavailable, Observation, Step, Task, TextEnv
from agentgym_rl.envs.hosts.elsewhere import Elsewhere, PerLoop
from agentgym_rl.envs.hosts.opener import Local, Opener
from agentgym_rl.envs.hosts.settings import Host
from agentgym_rl.envs.pool import Member, Pool

START_S = 120.0
"""Most seconds until a new worker answers."""


class Worker(Protocol):
    """Somebody with :class:`~agentgym_rl.envs.hosts.sessions.Sessions`."""

    timeout: float
    """Most seconds for a call."""

    @property
    def alive(self) -> bool:
        """Whether it may still answer."""

    async def call(self, method: str, *arguments: Any) -> Any:
        """The result of a method of its sessions.

        Raises:
            EnvUnavailable: it is dead.
            EnvTimeout: it took longer than ``timeout``, and was ended.
        """

    async def stop(self) -> None:
        """End it."""


class Crew:
    """The workers of one event loop. They start when they are first needed; a dead one is then replaced."""

    def __init__(self, opener: CrewOpener) -> None:
        self._opener = opener
        host = opener.host
        self.pool = Pool([f"{host.kind} worker {number + 1}" for number in range(host.workers)], host.sessions)
        self._starting: dict[str, asyncio.Task[Worker]] = {}

    async def worker(self, name: str) -> Worker:
        """The worker of that name, alive.

        Raises:
            EnvUnavailable, EnvTimeout: it does not start.
        """
        task = self._starting.get(name)
        if task is None or (task.done() and (task.cancelled() or task.exception() or not task.result().alive)):
            task = self._starting[name] = asyncio.create_task(self._start(name))
        return await asyncio.shield(task)

    async def _start(self, name: str) -> Worker:
        worker = await self._opener.start(name)
        await worker.call("ready")
        worker.timeout = self._opener.host.timeout
        return worker

    def lost(self, member: Member, worker: Worker, error: Exception) -> None:
        """Take note of a worker's death, unless it has been replaced already."""
        task = self._starting.get(member.name)
        if task is not None and task.done() and not task.exception() and task.result() is worker:
            self.pool.failed(member, error)

    async def stop(self) -> None:
        """End all workers."""
        for task in self._starting.values():
            try:
                worker = await task
            except EnvError:  # one that did not start needs no end
                continue
            await worker.stop()


class CrewOpener(Opener):
    """Opens sessions on workers. Each event loop has its own.

    A worker that dies, or takes longer than ``host.timeout`` for a call, is replaced. Its sessions end with
    EnvUnavailable (the slow call itself with EnvTimeout), so that their episodes can be played again.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self._crews = PerLoop(lambda: Crew(self))

    @abstractmethod
    async def start(self, name: str) -> Worker:
        """Start a worker, whose calls may take :data:`START_S` for now."""

    def open(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        return OnWorker(name, options, self)

    def crew(self) -> Crew:
        """The workers of the running event loop."""
        return self._crews.get()

    async def close(self) -> None:
        crew = self._crews.pop()
        if crew is not None:
            await crew.stop()


class OnWorker(Elsewhere):
    """A session on a worker. It gets one with the first reset and gives it back with :meth:`close`."""

    _numbers = itertools.count(1)

    def __init__(self, name: str, options: Mapping[str, Any], opener: CrewOpener) -> None:
        super().__init__(Local().open(name, options))
        self._name = name
        self._options = dict(options)
        self._opener = opener
        self._number = next(self._numbers)
        self._lease: tuple[Member, Worker] | None = None

    async def _reset(self, task: Task) -> Observation:
        """Start a task; where the worker has died, once more on another.

        Raises:
            TaskNotFound: the world has no such task.
            EnvUnavailable, EnvTimeout: no worker answers.
        """
        for last in (False, True):
            if self._lease is None:
                crew = self._opener.crew()
                self._lease = await crew.pool.lease(crew.worker, self._opener.host.patience)
            try:
                first: Observation = await self._call("reset", self._name, self._options, task)
            except EnvUnavailable:
                if last:
                    raise
            else:
                return first
        raise AssertionError("unreachable")

    async def _step(self, action: str) -> Step:
        step: Step = await self._call("step", action)
        return step

    async def _close(self) -> None:
        if self._lease is None:
            return
        _, worker = self._lease
        try:
            if worker.alive:
                await worker.call("close", self._number)
        finally:
            self._give_back()

    async def _call(self, method: str, *arguments: Any) -> Any:
        assert self._lease is not None
        member, worker = self._lease
        try:
            return await worker.call(method, self._number, *arguments)
        except (EnvUnavailable, EnvTimeout) as error:
            self._give_back()
            if not worker.alive:
                self._opener.crew().lost(member, worker, error)
            raise

    def _give_back(self) -> None:
        if self._lease is not None:
            self._opener.crew().pool.release(self._lease[0])
            self._lease = None
            self._in_episode = False
