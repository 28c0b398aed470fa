"""A world behind HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym_rl.envs.core import (
    EnvUnavailable,
    Observation,
    Step,
    Style,
    Task,
    TaskNotFound,
)
from agentgym_rl.envs.hosts.elsewhere import Elsewhere
from agentgym_rl.envs.hosts.settings import Host
from agentgym_rl.envs.pool import Member
from agentgym_rl.envs.protocol.client.leases import Lease
from agentgym_rl.envs.protocol.client.transport import Refused, servers
from agentgym_rl.envs.protocol.wire import dialect
from agentgym_rl.envs.registry import make


class Remote(Elsewhere):
    """A session on a server that speaks AgentGym's protocol: AgentGym's own or that of ``agentgym-rl serve``.

    Instruction, splits, tools, success rule, goals and oracles are those of the world as it is installed here;
    observations, rewards and endings come from the server. Rewards are brought into [0, 1], and so is their sum: a
    score on another scale is divided, a running score gives its increases, and what goes beyond is cut off. What the
    server reported stays in ``info["raw_reward"]``.

    A session is opened with the first reset, on the least loaded of the servers, and closed by :meth:`close`. Opening
    and resetting are repeated on another server where one fails. A step never is: after EnvUnavailable or EnvTimeout
    the episode has to be played again from a reset.

    Args:
        name: the world.
        address: one or several URLs, such as ``http://127.0.0.1:8000``; where a server has several worlds they are
            found at ``/<name>``.
        style: wording of the instruction; that of the observations is the server's.
        timeout: most seconds for a request.
        patience: most seconds to look for a server when none works.
        sessions: most sessions a server has at once; further ones wait.
        token_env: environment variable with the servers' token, sent as ``Authorization: Bearer``.
        options: further options of the world's class.

    Raises:
        UnknownEnv, MissingExtra: the world is not installed here.
        ValueError: an argument is out of range.
    """

    def __init__(
        self,
        name: str,
        address: str | Sequence[str],
        style: Style = "agentgym",
        *,
        timeout: float = 60.0,
        patience: float = 30.0,
        sessions: int | None = None,
        token_env: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(make(name, **{**options, "style": style}))
        self._name = name
        self._dialect = dialect(name)
        self._host = Host(
            kind="remote",
            address=address if isinstance(address, str) else tuple(address),
            timeout=timeout,
            patience=patience,
            sessions=sessions,
            token_env=token_env,
        )
        self._lease: Lease | None = None
        self._sound = True
        """Whether nothing is known against the leased session: no request of it failed or was given up."""
        self._earned = 0.0

    async def open(self) -> None:
        """Open the session, which the first reset would do otherwise.

        Raises:
            EnvUnavailable: no server works.
            ProtocolError: the server does not speak the protocol.
        """
        await self._open(None)

    async def _reset(self, task: Task) -> Observation:
        """Start a task; where the server fails at it, once more in a new session.

        Raises:
            TaskNotFound: neither the server nor the world as it is installed here has such a task.
            EnvUnavailable: no server works, or none can start the task.
            EnvTimeout: no answer in time.
            ProtocolError: the server does not speak the protocol.
        """
        try:
            first = await self._start(task.index)
        except EnvUnavailable:
            try:
                first = await self._start(task.index)
            except Refused:
                self.facts.difficulty(task)  # raises where the task is unknown here, too
                raise
        self._earned = 0.0
        return first

    async def _step(self, action: str) -> Step:
        """Carry out one action.

        Raises:
            ProtocolError: the server does not speak the protocol.
            EnvUnavailable, EnvTimeout: the server failed, or has lost the session.
        """
        return await self._post_step(self._dialect.write_action(self.spec, action))

    async def send(self, text: str) -> Step:
        """A step whose action the server gets as it is: the command, or for some environments the whole response.

        Raises:
            ProtocolError, EnvUnavailable, EnvTimeout: see :meth:`step`.
        """
        return await self._guarded(self._post_step, text)

    async def _post_step(self, text: str) -> Step:
        assert self._lease is not None
        self._in_episode = False  # until the server has answered: a step is never repeated
        body = await self._ask("POST", "/step", body=self._dialect.step_body(self._lease.session, text))
        step = self._dialect.read_step(body, self._earned)
        self._earned += step.reward
        return step

    def goal(self, task: Task) -> str:
        """The goal, or the item id of a task that only the server has."""
        try:
            return super().goal(task)
        except TaskNotFound:
            return str(task)

    def difficulty(self, task: Task) -> str:
        """The difficulty, or ``unknown`` for a task that only the server has."""
        try:
            return super().difficulty(task)
        except TaskNotFound:
            return "unknown"

    async def _close(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.close(reusable=self._sound)

    async def _start(self, index: int) -> Observation:
        avoid = None
        if self._lease is not None and not self._sound:
            avoid = self._lease.member
            await self._close()
        speech, session = self._dialect, (await self._open(avoid)).session
        first = speech.read_reset(await self._ask("POST", "/reset", body=speech.reset_body(session, index)))
        if speech.first_from == "observation":
            first = speech.read_observation(await self._ask("GET", "/observation", query={speech.key: session}))
        return first

    async def _open(self, avoid: Member | None) -> Lease:
        if self._lease is None:
            of_world = servers(self._name, self._host)
            self._lease = await Lease.open(of_world, self._dialect, self._host.patience, avoid)
            self._sound = True
        return self._lease

    async def _ask(self, method: str, path: str, **request: Any) -> Any:
        assert self._lease is not None
        self._sound = False
        body = await self._lease.ask(method, path, **request)
        self._sound = True
        return body
