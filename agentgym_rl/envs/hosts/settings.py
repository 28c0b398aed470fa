"""Settings of a host, as a recipe or a command gives them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Any, Literal, get_args

Kind = Literal["local", "process", "ray", "remote"]
KINDS: tuple[str, ...] = get_args(Kind)
SOCKETS = ("ws://", "wss://")
"""Starts of the addresses of servers that speak OpenEnv's protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """Settings of a host. Raises ValueError: a value is out of range; the message names the key."""

    kind: Kind = "local"
    """local (in this process) | process (processes on this machine) | ray (actors in a cluster) | remote (servers)."""
    address: str | tuple[str, ...] | None = None
    """remote: one or several ``http://host:port`` (AgentGym's protocol) or ``ws://host:port`` (OpenEnv's), separated by
    commas or as a list; ray: address of the cluster."""
    workers: int = 1
    """process, ray: number of processes or actors; each holds many sessions."""
    sessions: int | None = None
    """Most sessions a worker or server has at once; further ones wait. null sets no limit. AgentGym's SQLGym server has
    8 for all its clients."""
    timeout: float = 60.0
    """All but local: most seconds for one call; a process or actor that takes longer is replaced."""
    patience: float = 30.0
    """All but local: most seconds to look for a server or worker when none works."""
    token_env: str | None = None
    """remote: environment variable with the token of the servers; a token in a recipe would be logged with it."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"host.kind={self.kind!r} is unknown; choose {', '.join(KINDS)}")
        for key, number in (("workers", self.workers), ("sessions", self.sessions)):
            if number is not None and number < 1:
                raise ValueError(f"host.{key} must be at least 1, got {number}")
        for key, seconds in (("timeout", self.timeout), ("patience", self.patience)):
            if seconds <= 0:
                raise ValueError(f"host.{key} must be greater than 0, got {seconds}")
        if self.kind == "process" and find_spec("fcntl") is None:
            raise ValueError("host.kind=process works on Linux and macOS only; use local, or an address of a server")
        if self.kind == "remote" and not self.addresses:
            raise ValueError("host.kind=remote needs host.address, such as http://127.0.0.1:8000")
        if self.kind in ("local", "process") and self.addresses:
            raise ValueError(f"host.address={self.address!r} is for remote and ray, not for host.kind={self.kind}")
        if self.kind in ("local", "remote") and self.workers != 1:
            raise ValueError(f"host.workers={self.workers} is for process and ray, not for host.kind={self.kind}")
        if self.kind == "local":
            for setting in fields(self):
                key, value = setting.name, getattr(self, setting.name)
                if key in ("sessions", "timeout", "patience") and value != setting.default:
                    raise ValueError(f"host.{key}={value} is for workers and servers, not for host.kind=local")
        if self.token_env is not None and self.kind != "remote":
            raise ValueError(f"host.token_env={self.token_env} is for servers; add host.address, or leave it out")
        if self.kind == "remote":
            for address in self.addresses:
                scheme, _, rest = address.partition("://")
                if scheme not in ("http", "https", "ws", "wss") or not rest.strip("/"):
                    raise ValueError(f"address {address!r} is no URL; give one such as http://127.0.0.1:8000")
            if self.openenv and not all(address.startswith(SOCKETS) for address in self.addresses):
                raise ValueError(f"address={','.join(self.addresses)}: http:// and ws:// are servers of two kinds")

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses, one by one."""
        if self.address is None:
            return ()
        parts = self.address.split(",") if isinstance(self.address, str) else self.address
        return tuple(address.strip().rstrip("/") for address in parts if address.strip())

    @property
    def openenv(self) -> bool:
        """Whether the servers speak OpenEnv's protocol."""
        return self.kind == "remote" and any(address.startswith(SOCKETS) for address in self.addresses)

    @property
    def token(self) -> str | None:
        """The token that is sent as ``Authorization: Bearer``; None sends none.

        Raises:
            ValueError: the variable is not set.
        """
        if self.token_env is None:
            return None
        if self.token_env not in os.environ:
            raise ValueError(f"host.token_env={self.token_env}: there is no such environment variable")
        return os.environ[self.token_env].strip()

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> HostSettings:
        """Read a mapping. An address alone means ``remote``.

        Raises:
            ValueError: a key is unknown or a value out of range.
        """
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(settings) - set(known)):
            raise ValueError(f"host has no setting {', '.join(unknown)}; its settings: {', '.join(known)}")
        values = dict(settings)
        address = values.get("address")
        if address is not None and not isinstance(address, str):
            values["address"] = tuple(address)
        if "kind" not in values and values.get("address"):
            values["kind"] = "remote"
        return cls(**values)
