"""Environments in Ray actors, spread over a cluster."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from agentgym_rl.envs.core import EnvError, EnvUnavailable
from agentgym_rl.envs.hosts.child import Sessions
from agentgym_rl.envs.hosts.workers import Worker, WorkerHost

CALLS = 1000
"""Calls an actor works on at once."""


class RayHost(WorkerHost):
    """Opens sessions in ``settings.workers`` actors, which Ray places on the least used nodes.

    Without a running Ray, one is joined at ``settings.address`` or started here.
    """

    async def start(self, name: str) -> Worker:
        """Start an actor."""
        await asyncio.to_thread(_join, self.settings.address)
        actor = _SESSIONS.options(scheduling_strategy="SPREAD", num_cpus=0, max_concurrency=CALLS).remote()
        return ActorWorker(name, actor)


_SESSIONS = ray.remote(Sessions)
_JOINING = threading.Lock()


def _join(address: Any) -> None:
    """Join or start a cluster, once; actors may start at the same time."""
    with _JOINING:
        if not ray.is_initialized():
            ray.init(address=address, include_dashboard=False, log_to_driver=False)


class ActorWorker(Worker):
    """An actor that holds sessions."""

    alive = True

    def __init__(self, name: str, actor: Any) -> None:
        super().__init__(name)
        self._actor = actor

    async def _send(self, method: str, arguments: Sequence[Any], seconds: float) -> Any:
        if not self.alive:
            raise EnvUnavailable(f"{self.name} is dead")
        call = asyncio.create_task(self._finish(method, arguments, seconds))
        call.add_done_callback(_retrieve)  # the call goes on when its caller is cancelled
        return await asyncio.shield(call)

    async def stop(self) -> None:
        self.alive = False
        ray.kill(self._actor)

    async def _finish(self, method: str, arguments: Sequence[Any], seconds: float) -> Any:
        try:
            async with asyncio.timeout(seconds):
                return await self._actor.call.remote(method, *arguments)
        except RayTaskError as error:  # also a subclass of what the environment raised, such as TimeoutError
            raise error.cause if isinstance(error.cause, EnvError) else RuntimeError(str(error)) from None
        except TimeoutError:
            await self.stop()
            raise
        except RayActorError as error:
            self.alive = False
            raise EnvUnavailable(f"{self.name} died: {error}") from error


def _retrieve(call: asyncio.Future[Any]) -> None:
    """Retrieve the exception, if any, so that asyncio does not report it as lost."""
    if not call.cancelled():
        call.exception()
