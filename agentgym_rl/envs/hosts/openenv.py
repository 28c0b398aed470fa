"""Environments on servers that speak OpenEnv's protocol. Needs the extra ``remote``."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from agentgym_rl.envs.core import (
    EnvFault,
    EnvTimeout,
    EnvUnavailable,
    Observation,
    ProtocolError,
    Step,
    Task,
    TextEnv,
    in_thread,
)
from agentgym_rl.envs.hosts.host import EnvHost, EnvProxy, PerLoop
from agentgym_rl.envs.hosts.settings import HostSettings
from agentgym_rl.envs.http import Absent
from agentgym_rl.envs.numbering import digests
from agentgym_rl.envs.openenv import OpenEnv
from agentgym_rl.envs.pool import Member, Pool
from agentgym_rl.envs.protocol.openenv.client import Invalid, Offer, Socket, ask
from agentgym_rl.envs.protocol.openenv.wire import Data, read_result
from agentgym_rl.envs.registry import base_name, make
from agentgym_rl.envs.sync import outside
from agentgym_rl.envs.tooluse.tool import Refused

AGAIN_S = 0.5
"""Seconds until a server that does not answer is asked again."""


class OpenEnvHost(EnvHost):
    """Opens sessions on servers. The first server is asked once in a process what it has; this blocks."""

    def __init__(self, settings: HostSettings) -> None:
        self.settings = settings
        self.sockets = PerLoop(lambda: Pool(settings.addresses, settings.sessions))

    def open(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        """A session of an environment: of ``openenv``, or of one that is installed here and on the server.

        Raises:
            EnvUnavailable, EnvTimeout: the server does not answer within ``patience``.
            ProtocolError: it does not speak the protocol, or has another environment.
        """
        return OpenEnvSession(name, dict(options), self)

    def facts(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        return self.open(name, options)

    async def check(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        """Ask every server what it has, and open a session on it.

        Raises:
            EnvUnavailable, EnvTimeout: a server does not answer, or has no room.
            ProtocolError: a server has another environment or other tasks.
        """
        session = OpenEnvSession(name, dict(options or {}), self)
        first = session.offer
        own_digests = {} if isinstance(session.facts, OpenEnv) else await in_thread(digests, session.facts)
        if different := sorted(split for split in own_digests if first.digests.get(split) != own_digests[split]):
            raise ProtocolError(
                f"{first.base} has other tasks of {name} in {', '.join(different)}: serve the same version and options"
            )
        for address in self.settings.addresses:
            offer = await self._ask(address, name)
            if (offer.name, offer.splits, offer.digests) != (first.name, first.splits, first.digests):
                raise ProtocolError(f"{first.base} and {offer.base} have different environments or tasks")
            await (await self.connect(offer.base)).close()

    async def connect(self, base: str) -> Socket:
        """A session at a URL. Raises EnvUnavailable, EnvTimeout: there is no server, or it has no room."""
        socket = await Socket.open(base, self.settings.token, self.settings.timeout)
        try:
            with suppress(EnvFault):  # environments may have no state before a reset
                await socket.request("state")  # a full server opens the socket, and says so in answer to a request
        except BaseException:  # also a cancelled caller
            await socket.close()
            raise
        return socket

    def offer(self, name: str) -> Offer:
        """What the first server that answers says of the environment.

        Raises:
            EnvUnavailable, EnvTimeout: none answers within ``patience``.
            ProtocolError: it does not speak the protocol.
        """
        key = (name, self.settings)
        given_up_at = time.monotonic() + self.settings.patience
        while key not in _OFFERS:
            for address in self.settings.addresses:
                try:
                    _OFFERS[key] = outside(partial(asyncio.run, self._ask(address, name)))
                    break
                except (EnvUnavailable, EnvTimeout):
                    if time.monotonic() >= given_up_at:
                        raise
            else:
                time.sleep(AGAIN_S)
        return _OFFERS[key]

    async def _ask(self, address: str, name: str) -> Offer:
        return await ask(address, base_name(name), self.settings.token, self.settings.timeout)


class OpenEnvSession(EnvProxy):
    """A session on a server, from the first reset to :meth:`close`.

    A reset goes to the least loaded server, and once more to another where it fails. A step is never repeated. What the
    server refuses as a malformed action is the agent's mistake; what it reports as a failure of the environment is
    none of the agent's, and ends the episode with EnvFault.
    """

    def __init__(self, name: str, options: Mapping[str, Any], host: OpenEnvHost) -> None:
        facts = make(name, **options)
        self.offer = host.offer(name)
        super().__init__(facts.with_facts(self.offer) if isinstance(facts, OpenEnv) else facts)
        if not isinstance(facts, OpenEnv) and base_name(self.offer.name) != base_name(name):
            raise ProtocolError(f"{self.offer.base} has the environment {self.offer.name}, not {base_name(name)}")
        self._host = host
        self._lease: tuple[Member, Socket] | None = None
        self._sound = True
        """Whether every request of the open socket was answered."""

    def _opened(self, first: Observation) -> Observation:
        return self.facts._opened(first)

    async def _reset(self, task: Task) -> Observation:
        there = str(Task(self.offer.name, task.index))
        data = self.facts.reset_data(task) if isinstance(self.facts, OpenEnv) else {"item_id": there}
        try:
            first = await self._start(data)
        except EnvUnavailable:
            if self._lease is None:  # no server works
                raise
            first = await self._start(data)
        return first

    async def _step(self, action: str) -> Step:
        self._in_episode = False  # until the server has answered: a step is never repeated
        try:
            data = self.facts.step_data(action) if isinstance(self.facts, OpenEnv) else {"message": action}
            step = self._read(await self._request("step", data), self._earned)
        except (Refused, Invalid) as error:
            reason = error.reason if isinstance(error, Invalid) else str(error)
            step = Step(Observation(f"Error: {reason}"), 0.0, terminated=False, info={"invalid": True})
        self._in_episode = True
        return step

    async def _start(self, data: Data) -> Observation:
        avoid = None
        if self._lease is not None and not self._sound:
            avoid = self._lease[0]
            await self._close()
        if self._lease is None:
            settings, path = self._host.settings, self.offer.path
            self._lease = await self._host.sockets.get().lease(
                lambda address: self._host.connect(address + path), settings.patience, avoid
            )
        return self._read(await self._request("reset", data), 0.0).observation

    async def _request(self, kind: str, data: Data) -> dict[str, Any]:
        """The data of the answer. Any error but Invalid, a mistake of the agent's, spoils the session."""
        assert self._lease is not None
        member, socket = self._lease
        self._sound = False
        try:
            answer = await socket.request(kind, data)
        except Invalid:
            self._sound = True
            raise
        except Absent as error:
            self._host.sockets.get().failed(member, error)
            raise
        self._sound = True
        return answer

    def _read(self, data: Data, total: float) -> Step:
        if isinstance(self.facts, OpenEnv):
            return read_result(data, self.facts.observation, total, self.facts.full_reward)
        return read_result(data, None, total, 1.0)

    async def _close(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            member, socket = lease
            try:
                await socket.close()
            finally:
                self._host.sockets.get().release(member)


_OFFERS: dict[tuple[str, HostSettings], Offer] = {}
"""What servers have, by environment and settings, as of when they were first asked."""
