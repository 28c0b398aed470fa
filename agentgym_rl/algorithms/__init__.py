"""Algorithms, mixtures of tasks, and the curriculum of turn limits. One concept a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

from agentgym_rl.algorithms.base import Algorithm

GROUP = "agentgym_rl.algorithms"

__all__ = ["Algorithm", "algorithms"]


@cache
def algorithms() -> Mapping[str, type[Algorithm[Any]]]:
    """The classes of all installed algorithms by name: the entry-point group ``agentgym_rl.algorithms``.

    Raises:
        ValueError: an entry point is no :class:`Algorithm`, or two have one name.
    """
    found: dict[str, type[Algorithm[Any]]] = {}
    for point in entry_points(group=GROUP):
        loaded: object = point.load()
        if not (isinstance(loaded, type) and issubclass(loaded, Algorithm)):
            raise ValueError(f"entry point {point.name} = {point.value} must be a subclass of {Algorithm.__qualname__}")
        if point.name in found:
            raise ValueError(f"entry point {point.value}: there is an algorithm {point.name!r} already; rename yours")
        found[point.name] = loaded
    return MappingProxyType(found)
