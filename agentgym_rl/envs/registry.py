"""Worlds found by entry point, so that any installed package can bring one."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from agentgym_rl.envs.core import EnvError, MissingExtra, TextEnv, UnknownEnv

GROUP = "agentgym_rl.envs"


@cache
def read_points() -> dict[str, EntryPoint]:
    """By name; read from disk once a process."""
    return {point.name: point for point in entry_points(group=GROUP)}


def available() -> list[str]:
    """Names of the installed worlds, sorted."""
    return sorted(read_points())


def env_class(name: str) -> type[TextEnv]:
    """The class of a world.

    Raises:
        UnknownEnv: no installed package brings a world of that name.
        MissingExtra: the world is known but a package it needs is not installed.
        EnvError: the entry point names something that is not there.
    """
    points = read_points()
    if name not in points:
        raise UnknownEnv(f"unknown world {name!r}; installed worlds: {', '.join(sorted(points)) or 'none'}")
    point = points[name]
    try:
        found: type[TextEnv] = point.load()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "agentgym_rl":
            raise
        raise MissingExtra(
            f"world {name!r} needs the package {error.name!r}; install it with: pip install 'agentgym-rl[{name}]'"
        ) from error
    except (ImportError, AttributeError) as error:
        raise EnvError(f"world {name!r} is broken: its entry point {point.value} cannot be loaded: {error}") from error
    return found


def make(name: str, **options: Any) -> TextEnv:
    """Open a session of a world; ``options`` are those of its class (all take ``style``).

    Raises:
        UnknownEnv, MissingExtra: see :func:`env_class`.
        TypeError: the world has no such option.
    """
    return env_class(name)(**options)
