"""Classes that installed packages bring, found by entry point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any


@cache
def installed(group: str, base: type) -> Mapping[str, Any]:
    """The classes of an entry-point group by name.

    Raises:
        ValueError: an entry point is no subclass of ``base``, or two have one name.
    """
    found: dict[str, Any] = {}
    for point in entry_points(group=group):
        loaded: object = point.load()
        if not (isinstance(loaded, type) and issubclass(loaded, base)):
            raise ValueError(f"entry point {point.name} = {point.value} must be a subclass of {base.__qualname__}")
        if point.name in found:
            raise ValueError(f"entry point {point.value}: {group} has {point.name!r} already; rename yours")
        found[point.name] = loaded
    return MappingProxyType(found)
