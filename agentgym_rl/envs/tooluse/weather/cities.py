"""The cities of ``cities.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentgym_rl.envs.tables import load


@dataclass(frozen=True, slots=True)
class City:
    """A place. Degrees, metres."""

    name: str
    country: str
    latitude: float
    longitude: float
    elevation: int


@dataclass(frozen=True, slots=True)
class Cities:
    """The file ``cities.toml``."""

    cities: tuple[City, ...]


CITIES = load(Path(__file__).with_name("cities.toml"), Cities).cities

_NAMES = [city.name for city in CITIES]

UNIQUE = tuple(city for city in CITIES if _NAMES.count(city.name) == 1)
"""Cities that share their name with no other."""

BY_NAME = {name.casefold(): tuple(city for city in CITIES if city.name == name) for name in _NAMES}
