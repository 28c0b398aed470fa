"""Which environment a server has, and which of its tasks are those of the environment as it is installed here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agentgym_rl.envs.core import EnvSpec, ProtocolError, Task, TaskNotFound
from agentgym_rl.envs.protocol.client.servers import PROBE_S, Missing, Servers
from agentgym_rl.envs.protocol.wire import Dialect
from agentgym_rl.envs.registry import base_name

Digests = Mapping[str, str]
"""Of each split, see :func:`agentgym_rl.envs.numbering.digests`."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tasks of a server, compared with those of the environment as it is installed here."""

    dialect: Dialect
    address: str
    agentgym: bool
    """Whether the server is AgentGym's own."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Splits with tasks that the server does not have, each with the reason."""

    @classmethod
    def of(cls, dialect: Dialect, address: str, spec: EnvSpec, ours: Digests, theirs: Digests | None) -> Offer:
        """Compare our digests with a server's; AgentGym's servers tell none."""
        if theirs is not None:
            reason = "the server has other tasks there: serve the environment with the same options and version"
            others = [split for split in ours if theirs.get(split) != ours[split]]
            return cls(dialect, address, False, dict.fromkeys(others, reason))
        last = dialect.tasks - 1 if dialect.tasks is not None else None
        reason = (
            f"AgentGym's server has tasks 0 to {last}; in place of the split give a file of AgentGym's item ids, "
            "such as one of the data set AgentGym/AgentEval"
        )
        filled = {split: indices for split, indices in spec.splits.items() if indices}
        beyond = [split for split, indices in filled.items() if last is not None and indices[-1] > last]
        return cls(dialect, address, True, dict.fromkeys(beyond, reason))

    def restrict(self, spec: EnvSpec) -> EnvSpec:
        """The facts of an environment that runs on the server."""
        unavailable = {split: f"on {self.address}: {why}" for split, why in self.unavailable.items()}
        return replace(spec, unavailable=unavailable, other_ids="" if self.agentgym else spec.other_ids)

    def same(self, spec: EnvSpec, task: Task) -> bool:
        """Whether a task is the one of that index here, if there is one.

        Raises:
            TaskNotFound: AgentGym's server has no such task.
        """
        if self.agentgym:
            if self.dialect.tasks is not None and task.index >= self.dialect.tasks:
                raise TaskNotFound(
                    f"{task} is not on {self.address}: AgentGym's server has tasks 0 to {self.dialect.tasks - 1}"
                )
            return self.dialect.renumbered is None or task.index < self.dialect.renumbered
        return not any(task.index in spec.splits[split] for split in self.unavailable)


async def ask(servers: Servers, base: str, dialect: Dialect) -> Digests | None:
    """The digests that a server tells of its splits; None for AgentGym's servers, which have no such route.

    Raises:
        ProtocolError: the server has another environment.
        EnvUnavailable, EnvTimeout: it does not answer.
    """
    try:
        numbering = await servers.request(base, "GET", "/numbering", seconds=PROBE_S + servers.timeout)
    except Missing:
        await check_name(servers, base, dialect)
        return None
    if not isinstance(numbering, dict) or not isinstance(numbering.get("splits"), dict):
        raise ProtocolError(f"GET {base}/numbering: not an object with the digests of splits: {str(numbering)[:200]}")
    if base_name(str(numbering.get("env"))) != dialect.env:
        raise ProtocolError(f"{base} has the environment {numbering.get('env')}, not {dialect.env}")
    return {str(split): str(digest) for split, digest in numbering["splits"].items()}


async def check_name(servers: Servers, base: str, dialect: Dialect) -> None:
    """AgentGym's servers name themselves at ``/``: with a sentence, or with ``ok`` in the family with ``env_idx``.

    Raises:
        ProtocolError: the name is that of another environment.
    """
    try:
        greeting = await servers.request(base, "GET", "/", seconds=PROBE_S)
    except ProtocolError:  # its server of maze and wordle has no page at their paths
        return
    named = re.fullmatch(r"This is environment (.+)\.", greeting) if isinstance(greeting, str) else None
    name = named[1] if named else greeting
    expected = dialect.title or "ok"
    if (named or greeting == "ok") and name != expected and not (named and name.casefold() == dialect.env):
        identity = f"says {greeting!r}" if named else "is one of AgentGym's servers with env_idx"
        raise ProtocolError(f"{base} {identity}: that is not the server of {dialect.env}")
