"""The one interface of all hosts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any

from agentgym_rl.envs.core import TextEnv
from agentgym_rl.envs.registry import env_class

world_class = cache(env_class)
"""Looked up once a process; entry points are read from disk."""


class Opener(ABC):
    """Opens sessions of worlds at one place. Sessions are used and closed like any others."""

    @abstractmethod
    def open(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        """A session of a world; ``options`` are those of its class. Nothing runs before its first reset.

        Raises:
            UnknownEnv, MissingExtra: see :func:`agentgym_rl.envs.env_class`.
        """

    async def check(self, name: str) -> None:
        """Whether a world can be played here.

        Raises:
            EnvError: it cannot; names the place.
        """
        return None

    async def close(self) -> None:
        """Give back what the sessions of the running event loop shared. Sessions still open are lost."""
        return None


class Local(Opener):
    """Sessions in this process: asynchronous worlds in the event loop, blocking ones in threads."""

    def open(self, name: str, options: Mapping[str, Any]) -> TextEnv:
        return world_class(name)(**options)
