"""What a server serves, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a server; the same for all of its workers."""

    worlds: Mapping[str, Mapping[str, Any]]
    """Names of the worlds and the options of their classes. A world alone lies at ``/`` and ``/<name>``, several at
    ``/<name>``."""
    session_ttl: float = 1800.0
    """Seconds after which a session nobody has used is closed."""
    max_sessions: int = 4096
    """Open sessions, over all workers."""
    body_limit: int = 1 << 20
    """Bytes a request's body may have."""
    token: str | None = None
    """What ``Authorization: Bearer`` must carry; None lets everybody in."""
    workers: int = 1
    """Processes; each session stays in one."""

    def __post_init__(self) -> None:
        if not self.worlds:
            raise ValueError("no world to serve; name at least one")
        for name in ("session_ttl", "max_sessions", "body_limit", "workers"):
            if (value := getattr(self, name)) <= 0:
                raise ValueError(f"{name} is {value}; give more than 0")
        if self.max_sessions < self.workers:
            raise ValueError(f"max_sessions is {self.max_sessions}; give each of the {self.workers} workers one")
        if self.token is not None and (not self.token.isascii() or not self.token.isprintable() or " " in self.token):
            raise ValueError("the token may hold printable ASCII characters without spaces only")
        if self.token == "":
            raise ValueError("the token is empty; a server without one is started without the option")
