"""Workers that hold sessions, whether processes or actors: leases of sessions, and replacement of workers that die."""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable, Observation, Step, Task, TextEnv
from agentgym_rl.envs.hosts.child import read_observation, read_step
from agentgym_rl.envs.hosts.host import EnvHost, EnvProxy, LocalHost, PerLoop
from agentgym_rl.envs.hosts.settings import HostSettings
from agentgym_rl.envs.pool import Member, Pool

START_S = 120.0
"""Most seconds until a new worker answers."""


class Worker(ABC):
    """A process or an actor with :class:`~agentgym_rl.envs.hosts.child.Sessions`, seen from outside."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.timeout = START_S
        """Most seconds for a call."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether it may still answer."""

    async def call(self, method: str, *arguments: Any) -> Any:
        """The result of a method of its sessions.

        Raises:
            EnvUnavailable: it is dead.
            EnvTimeout: it took longer than ``timeout``, and was ended.
        """
        seconds = self.timeout
        try:
            return await self._send(method, arguments, seconds)
        except TimeoutError as error:
            raise EnvTimeout(f"{self.name} took longer than {seconds:g} s for a {method}") from error
        except ConnectionError as error:
            raise EnvUnavailable(f"{self.name} died") from error

    @abstractmethod
    async def _send(self, method: str, arguments: Sequence[Any], seconds: float) -> Any:
        """The result of a call; ends the worker, and raises TimeoutError, where it takes longer than ``seconds``."""

    @abstractmethod
    async def stop(self) -> None:
        """End it."""


class WorkerHost(EnvHost):
    """Opens sessions on workers. Each event loop has its own workers.

    A worker that dies, or takes longer than ``settings.timeout`` for a call, is replaced. Its sessions end with
    EnvUnavailable (the slow call itself with EnvTimeout), so that their episodes can be run again.
    """

    def __init__(self, settings: HostSettings) -> None:
        self.settings = settings
        self._pools = PerLoop(lambda: WorkerPool(self))

    @abstractmethod
    async def start(self, name: str) -> Worker:
        """Start a worker, whose calls may take :data:`START_S` for now. Raises OSError: the system cannot."""

    def open(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        return WorkerEnv(name, options, self)

    def pool(self) -> WorkerPool:
        """The workers of the running event loop."""
        return self._pools.get()

    async def close(self) -> None:
        pool = self._pools.pop()
        if pool is not None:
            await pool.stop()


class WorkerPool:
    """The workers of one event loop. They start when they are first needed; a dead one is then replaced."""

    def __init__(self, host: WorkerHost) -> None:
        self._host = host
        settings = host.settings
        names = [f"{settings.kind} worker {number + 1}" for number in range(settings.workers)]
        self.leases = Pool(names, settings.sessions)
        self._starting: dict[str, asyncio.Task[Worker]] = {}

    async def worker(self, name: str) -> Worker:
        """The worker of that name, alive. Raises EnvUnavailable, EnvTimeout: it does not start."""
        task = self._starting.get(name)
        if task is None or (task.done() and (task.cancelled() or task.exception() or not task.result().alive)):
            task = self._starting[name] = asyncio.create_task(self._start(name))
        return await asyncio.shield(task)

    async def _start(self, name: str) -> Worker:
        try:
            worker = await self._host.start(name)
        except OSError as error:
            raise EnvUnavailable(f"{name} cannot be started: {error}") from error
        await worker.call("ready")
        worker.timeout = self._host.settings.timeout
        return worker

    def lost(self, member: Member, worker: Worker, error: Exception) -> None:
        """Record a worker's death, unless it has been replaced already."""
        task = self._starting.get(member.name)
        if task is not None and task.done() and not task.exception() and task.result() is worker:
            self.leases.failed(member, error)

    async def stop(self) -> None:
        """End all workers, also where some did not start."""
        started = await asyncio.gather(*self._starting.values(), return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in started if isinstance(worker, Worker)))


class WorkerEnv(EnvProxy):
    """A session on a worker, from the first reset to :meth:`close`."""

    _numbers = itertools.count(1)

    def __init__(self, name: str, options: Mapping[str, Any], host: WorkerHost) -> None:
        super().__init__(LocalHost().open(name, options))
        self._name = name
        self._options = dict(options)
        self._host = host
        self._number = next(self._numbers)
        self._lease: tuple[Member, Worker] | None = None

    async def content(self, task: Task) -> str:
        return await self.facts.content(task)

    async def _reset(self, task: Task) -> Observation:
        """Start a task; where that fails, once more in a new session, on another worker if this one has died."""
        await self._open()
        try:
            return await self._start(task)
        except EnvUnavailable:
            await self._close()
            await self._open()
            return await self._start(task)

    async def _open(self) -> None:
        """Lease a place on a worker, unless there is one. Raises EnvUnavailable: no worker works."""
        if self._lease is None:
            pool = self._host.pool()
            self._lease = await pool.leases.lease(pool.worker, self._host.settings.patience)

    async def _start(self, task: Task) -> Observation:
        return read_observation(await self._call("reset", self._name, self._options, task.env, task.index))

    async def _step(self, action: str) -> Step:
        return read_step(await self._call("step", action))

    async def _close(self) -> None:
        if self._lease is None:
            return
        _, worker = self._lease
        try:
            if worker.alive:
                await worker.call("close", self._number)
        finally:
            self._release()

    async def _call(self, method: str, *arguments: Any) -> Any:
        assert self._lease is not None
        member, worker = self._lease
        try:
            return await worker.call(method, self._number, *arguments)
        except (EnvUnavailable, EnvTimeout) as error:
            self._in_episode = False
            if not worker.alive:  # else the environment has failed, and its session is still to be closed
                self._release()
                self._host.pool().lost(member, worker, error)
            raise

    def _release(self) -> None:
        self._in_episode = False
        if self._lease is not None:
            self._host.pool().leases.release(self._lease[0])
            self._lease = None
