"""Settings of a server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_rl.envs.numbering import Panel


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a server; the same for all of its workers."""

    envs: Mapping[str, Mapping[str, Any]]
    """Names of the environments and the options of their classes. A single environment is at ``/`` and ``/<name>``,
    several are at ``/<name>``."""
    session_ttl: float = 1800.0
    """Seconds after which an unused session is closed."""
    max_sessions: int = 4096
    """Open sessions, over all workers."""
    body_limit: int = 1 << 20
    """Most bytes in the body of a request."""
    token: str | None = None
    """The token that ``Authorization: Bearer`` must carry; None serves every request."""
    workers: int = 1
    """Processes; each session stays in one."""
    panels: Sequence[Panel] = ()
    """What OpenEnv's Task API lists beside the splits of the environments."""

    def __post_init__(self) -> None:
        if not self.envs:
            raise ValueError("no environment to serve; name at least one")
        for panel in self.panels:
            if panel.env not in self.envs:
                raise ValueError(f"panel {panel.name} has tasks of {panel.env}, which is not served")
        for name in ("session_ttl", "max_sessions", "body_limit", "workers"):
            if not (value := getattr(self, name)) > 0:
                raise ValueError(f"{name} is {value}; give more than 0")
        if self.max_sessions < self.workers:
            raise ValueError(f"max_sessions is {self.max_sessions}; give each of the {self.workers} workers one")
        if self.token is not None and (not self.token.isascii() or not self.token.isprintable() or " " in self.token):
            raise ValueError("the token may contain only printable ASCII characters without spaces")
        if self.token == "":
            raise ValueError("the token is empty; leave out the option to serve without a token")
