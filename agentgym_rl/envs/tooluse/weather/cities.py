"""The cities of ``cities.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym_rl.envs.tooluse.data import load


@dataclass(frozen=True, slots=True)
class City:
    """A place. Degrees, metres."""

    name: str
    country: str
    latitude: float
    longitude: float
    elevation: int


@dataclass(frozen=True, slots=True)
class _Table:
    cities: tuple[tuple[str, str, float, float, int], ...]


CITIES = tuple(City(*row) for row in load(_Table, Path(__file__).with_name("cities.toml")).cities)

_NAMES = [city.name for city in CITIES]

UNIQUE = tuple(city for city in CITIES if _NAMES.count(city.name) == 1)
"""Cities that share their name with no other."""

BY_NAME: Mapping[str, tuple[City, ...]] = {
    name.casefold(): tuple(city for city in CITIES if city.name == name) for name in _NAMES
}
