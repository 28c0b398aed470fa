"""Worlds in Ray actors, spread over a cluster; and the opener of any host."""

from __future__ import annotations

import asyncio
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from agentgym_rl.envs import hosts
from agentgym_rl.envs.core import EnvError, EnvTimeout, EnvUnavailable
from agentgym_rl.envs.hosts import Host, Opener
from agentgym_rl.envs.hosts.crew import START_S, CrewOpener, Worker
from agentgym_rl.envs.hosts.sessions import Sessions

CALLS = 1000
"""Calls an actor works on at once."""


class Actors(CrewOpener):
    """Opens sessions in ``host.workers`` actors, which Ray places on the least used nodes.

    Without a running Ray, one is joined at ``host.address`` or started here.
    """

    async def start(self, name: str) -> Worker:
        """Start an actor."""
        if not ray.is_initialized():
            await asyncio.to_thread(ray.init, address=self.host.address, include_dashboard=False, log_to_driver=False)
        actor = _SESSIONS.options(scheduling_strategy="SPREAD", num_cpus=0, max_concurrency=CALLS).remote()
        return ActorWorker(name, actor)


_SESSIONS = ray.remote(Sessions)


class ActorWorker:
    """An actor that holds sessions, seen from outside."""

    def __init__(self, name: str, actor: Any) -> None:
        self.name = name
        self.alive = True
        self._actor = actor
        self.timeout = START_S

    async def call(self, method: str, *arguments: Any) -> Any:
        if not self.alive:
            raise EnvUnavailable(f"{self.name} is dead")
        asked = asyncio.create_task(self._ask(method, *arguments))
        asked.add_done_callback(_looked_at)  # a caller that is cancelled leaves it to itself
        return await asyncio.shield(asked)

    async def stop(self) -> None:
        self.alive = False
        ray.kill(self._actor)

    async def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            async with asyncio.timeout(self.timeout):
                return await self._actor.call.remote(method, *arguments)
        except TimeoutError as error:
            await self.stop()
            raise EnvTimeout(f"{self.name} took longer than {self.timeout:g} s for a {method}") from error
        except RayActorError as error:
            self.alive = False
            raise EnvUnavailable(f"{self.name} died: {error}") from error
        except RayTaskError as error:
            raise error.cause if isinstance(error.cause, EnvError) else error from None


def _looked_at(asked: asyncio.Future[Any]) -> None:
    if not asked.cancelled():
        asked.exception()


def opener(host: Host) -> Opener:
    """What opens sessions at a host of any kind."""
    return Actors(host) if host.kind == "ray" else hosts.opener(host)
