"""Environments on servers that speak AgentGym's protocol. Needs the extra ``remote``."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from agentgym_rl.envs.core import (
    EnvSpec,
    EnvUnavailable,
    Observation,
    OracleUnavailable,
    ProtocolError,
    Step,
    Style,
    Task,
    TaskNotFound,
    TextEnv,
    in_thread,
)
from agentgym_rl.envs.hosts.host import EnvHost, EnvProxy, PerLoop
from agentgym_rl.envs.hosts.settings import HostSettings
from agentgym_rl.envs.numbering import digests
from agentgym_rl.envs.pool import Member
from agentgym_rl.envs.protocol.client.leases import Lease, reach
from agentgym_rl.envs.protocol.client.offers import Offer
from agentgym_rl.envs.protocol.client.servers import Refused, Servers
from agentgym_rl.envs.protocol.wire import dialect
from agentgym_rl.envs.registry import make

Fact = TypeVar("Fact", str, int)


class RemoteHost(EnvHost):
    """Opens sessions on servers."""

    def __init__(self, settings: HostSettings) -> None:
        self.settings = settings

    def open(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        return RemoteEnv(name, self.settings, **options)

    async def check(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        """Open a session on each server, ask which tasks it has, and close it.

        Raises:
            EnvUnavailable, EnvTimeout: a server does not answer.
            ProtocolError: a server has another environment, or other tasks than the first; see
                :mod:`agentgym_rl.envs.protocol.client.offers`.
        """
        options = options or {}
        here = make(name, **options)
        (base, first_digests), *others = await reach(dialect(name), _servers(self.settings))
        for address, other_digests in others:
            if other_digests != first_digests:
                raise ProtocolError(f"{base} and {address} have different tasks of {name}; use servers of one kind")
        own_digests = {} if first_digests is None else await in_thread(digests, here)
        _OFFERS[_key(name, self.settings, options)] = Offer.of(
            dialect(name), base, here.spec, own_digests, first_digests
        )

    def facts(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        if _key(name, self.settings, options) not in _OFFERS:
            asyncio.run(self.check(name, options))
        return self.open(name, options)


class RemoteEnv(EnvProxy):
    """A session on a server: AgentGym's own or that of ``agentgym-rl serve``.

    Instruction, tools and success rule are those of the environment as it is installed here; splits, goals,
    difficulties and oracles, too, as far as the server has the same tasks (:meth:`RemoteHost.check` asks it).
    Observations, rewards and endings come from the server. Rewards are brought into [0, 1], and so is their sum: a
    score on another scale is divided, a running score gives its increases, and what exceeds the range is cut off. The
    server's own value is in ``info["raw_reward"]``.

    The first reset opens a session on the least loaded of the servers, and :meth:`close` closes it. Opening and
    resetting are repeated on another server where one fails. A step never is: after EnvUnavailable or EnvTimeout
    the episode has to be run again from a reset.

    Args:
        name: the environment.
        host: settings of kind ``remote``, or one or several URLs such as ``http://127.0.0.1:8000``; where a server
            has several environments they are found at ``/<name>``.
        style: wording of the instruction; that of the observations is the server's.
        options: further options of the environment's class.

    Raises:
        UnknownEnv, MissingExtra: the environment is not installed here.
        ValueError: an argument is out of range.
    """

    def __init__(
        self, name: str, host: HostSettings | str | Sequence[str], style: Style = "agentgym", **options: Any
    ) -> None:
        super().__init__(make(name, **{**options, "style": style}))
        self._host = host if isinstance(host, HostSettings) else HostSettings.of({"kind": "remote", "address": host})
        self._name = name
        self._key = _key(name, self._host, options)
        self._dialect = dialect(name)
        self._lease: Lease | None = None
        self._sound = True
        """Whether no request of the leased session has failed or was given up."""

    async def open(self, avoid: Member | None = None) -> Lease:
        """Open the session, unless it is open; the first reset would do it otherwise.

        Args:
            avoid: a server to use only where no other has room.

        Raises:
            EnvUnavailable: no server works.
            ProtocolError: the server does not speak the protocol.
        """
        if self._lease is None:
            shared = _SERVERS.setdefault((self._name, self._host), PerLoop(lambda: _servers(self._host)))
            self._lease = await Lease.open(shared.get(), self._dialect, self._host.patience, avoid)
            self._sound = True
        return self._lease

    def _opened(self, first: Observation) -> Observation:
        return self.facts._opened(first)

    async def _reset(self, task: Task) -> Observation:
        """Start a task; where the server fails at it, once more in a new session.

        Raises:
            TaskNotFound: neither the server nor the environment as it is installed here has such a task.
            ProtocolError: the server does not speak the protocol.
        """
        try:
            first = await self._start(task.index)
        except EnvUnavailable:
            if self._lease is None:  # no server works
                raise
            try:
                first = await self._start(task.index)
            except Refused:
                self.facts.difficulty(task)  # raises where the task is unknown here, too
                raise
        return first

    async def _step(self, action: str) -> Step:
        return await self._post_step(self._dialect.write_action(self.spec, action))

    async def send(self, text: str) -> Step:
        """A :meth:`step` whose action the server gets as it is: the command, or in some environments the response."""
        return await self._guarded(self._post_step, text)

    async def _post_step(self, text: str) -> Step:
        assert self._lease is not None
        self._in_episode = False  # until the server has answered: a step is never repeated
        body = await self._request("POST", "/step", body=self._dialect.step_body(self._lease.session, text))
        step = self._dialect.read_step(body, self._earned)
        self._in_episode = True
        return step

    @property
    def spec(self) -> EnvSpec:
        """The facts; ``unavailable`` names splits whose tasks the server does not have."""
        return self.facts.spec if (offer := self._offer) is None else offer.restrict(self.facts.spec)

    def goal(self, task: Task) -> str:
        """The goal, or the item id of a task that only the server has."""
        return self._fact(super().goal, task, str(task))

    def difficulty(self, task: Task) -> str:
        """The difficulty, or ``unknown`` for a task that only the server has."""
        return self._fact(super().difficulty, task, "unknown")

    def revision(self, task: Task) -> int:
        """See :meth:`TextEnv.revision`; 1 for a task that only the server has."""
        return self._fact(super().revision, task, 1)

    def oracle(self, task: Task) -> list[str]:
        """See :meth:`TextEnv.oracle`. Raises OracleUnavailable: the server has another task of that index."""
        if not self._same(task):
            raise OracleUnavailable(
                f"{self._host.address} has other tasks than {self._name} as it is installed here; use the oracle on "
                "`agentgym-rl serve`"
            )
        return super().oracle(task)

    def steps_left(self, task: Task, commands: Sequence[str]) -> list[float] | None:
        """See :meth:`TextEnv.steps_left`; None where the server has another task of that index."""
        return super().steps_left(task, commands) if self._same(task) else None

    @property
    def _offer(self) -> Offer | None:
        """None before the servers were asked."""
        return _OFFERS.get(self._key)

    def _same(self, task: Task) -> bool:
        """Whether the server's task of that index is the one here, as far as is known."""
        self._index(task)
        return (offer := self._offer) is None or offer.same(self.facts.spec, task)

    def _fact(self, ask: Callable[[Task], Fact], task: Task, unknown: Fact) -> Fact:
        if not self._same(task):
            return unknown
        try:
            return ask(task)
        except TaskNotFound:
            return unknown

    async def _close(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.close(reusable=self._sound)

    async def _start(self, index: int) -> Observation:
        avoid = None
        if self._lease is not None and not self._sound:
            avoid = self._lease.member
            await self._close()
        dialect, session = self._dialect, (await self.open(avoid)).session
        first = dialect.read_reset(await self._request("POST", "/reset", body=dialect.reset_body(session, index)))
        if dialect.first_from == "observation":
            first = dialect.read_observation(await self._request("GET", "/observation", query={dialect.key: session}))
        if first.text == dialect.without_words and dialect.vocabulary:
            first = dialect.read_words(
                first, await self._request("GET", "/filtered_vocab", query={dialect.key: session})
            )
        return first

    async def _request(self, method: str, path: str, **content: Any) -> Any:
        assert self._lease is not None
        self._sound = False
        body = await self._lease.request(method, path, **content)
        self._sound = True
        return body


def _servers(settings: HostSettings) -> Servers:
    return Servers(settings.addresses, settings.timeout, settings.sessions, settings.token)


def _key(name: str, settings: HostSettings, options: Mapping[str, Any]) -> tuple[str, HostSettings, str]:
    """What an offer depends on. The style, which only words tasks, is not of it."""
    of_tasks = {option: value for option, value in options.items() if option != "style"}
    return name, settings, json.dumps(of_tasks, sort_keys=True, default=str)


_OFFERS: dict[tuple[str, HostSettings, str], Offer] = {}
"""What servers have, by environment, settings and options, as of the last check."""
_SERVERS: dict[tuple[str, HostSettings], PerLoop[Servers]] = {}
"""Servers by environment and settings, shared by all sessions with the same."""
