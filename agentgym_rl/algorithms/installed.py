"""Classes that installed packages bring, found by entry point."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

from agentgym_rl.envs import own_files

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Installed:
    """The classes of an entry-point group."""

    classes: Mapping[str, Any]
    """By name."""
    broken: Mapping[str, str]
    """Errors of the others, by name."""


def installed(group: str, base: type) -> Mapping[str, Any]:
    """The classes of an entry-point group by name. One that cannot be used is left out, with a warning.

    Raises:
        ValueError: two have one name.
    """
    return read(group, base).classes


def adopt(reference: str, base: type) -> str:
    """Take a class from a file, such as ``./mine.py:LastTurn``; returns the name to choose it by.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it has no such class.
    """
    name = own_files.adopt(reference, base)
    read.cache_clear()
    return name


@cache
def read(group: str, base: type) -> Installed:
    """The classes of a group in the order of their names, and what cannot be used; read, and warned of, once a process.

    Raises:
        ValueError: two have one name.
    """
    classes: dict[str, Any] = {}
    broken: dict[str, str] = {}
    for point in (*entry_points(group=group), *own_files.points(group, base)):
        if point.name in classes:
            raise ValueError(f"entry point {point.value}: {group} has {point.name!r} already; rename yours")
        try:
            loaded: object = point.load()
        except Exception as error:  # noqa: BLE001 - a module may raise anything, and others must not fail with it
            broken[point.name] = f"its entry point {point.value} cannot be loaded: {type(error).__name__}: {error}"
            log.warning("%s %r is left out: %s", group, point.name, broken[point.name])
            continue
        if isinstance(loaded, type) and issubclass(loaded, base):
            classes[point.name] = loaded
        else:
            broken[point.name] = f"its entry point {point.value} is no subclass of {base.__qualname__}"
            log.warning("%s %r is left out: %s", group, point.name, broken[point.name])
    return Installed(MappingProxyType(dict(sorted(classes.items()))), MappingProxyType(broken))
