"""The cities of ``cities.toml``, and the weather of any place on any day: generated, plausible, and always the same.

A year has a season by latitude, colder with height; on it lie swings of about a week and of a day. All chance comes
from a hash of place, day and quantity, so nothing needs to be stored.
"""

from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from hashlib import blake2b
from math import asin, cos, log, pi, radians, sin, sqrt
from pathlib import Path
from struct import unpack

from agentgym_rl.envs.tables import load

NEAR = 50.0
"""Kilometres within which a point has the weather of a city (AgentGym's limit for the same place)."""

EARTH = 6371.0
"""Mean radius, kilometres."""

SWING = 6
"""Days between the knots of the slow swings."""


@dataclass(frozen=True, slots=True)
class Place:
    """A point with its own weather. Degrees, metres."""

    latitude: float
    longitude: float
    elevation: int


@dataclass(frozen=True, slots=True)
class City(Place):
    name: str
    country: str


@dataclass(frozen=True, slots=True)
class Cities:
    """The file ``cities.toml``."""

    cities: tuple[City, ...]


CITIES = load(Path(__file__).with_name("cities.toml"), Cities).cities

_NAMES = [city.name for city in CITIES]

UNIQUE = tuple(city for city in CITIES if _NAMES.count(city.name) == 1)
"""Cities that share their name with no other."""

BY_NAME = {name.casefold(): tuple(city for city in CITIES if city.name == name) for name in _NAMES}


@lru_cache(maxsize=8192)
def _chances(latitude: float, longitude: float, what: str, number: int) -> tuple[float, ...]:
    """Eight numbers in [0, 1), a hash of a place, a kind of quantity and a number."""
    digest = blake2b(f"{latitude} {longitude} {what} {number}".encode(), digest_size=16).digest()
    return tuple(number / 2**16 for number in unpack(">8H", digest))


@dataclass(frozen=True, slots=True)
class Day:
    """Weather of one day: degrees Celsius, millimetres of rain, centimetres of snow, European AQI of PM2.5."""

    high: float
    low: float
    mean: float
    rain: float
    snow: float
    air: int


def distance(latitude1: float, longitude1: float, latitude2: float, longitude2: float) -> float:
    """Kilometres between two points along a great circle."""
    lat1, lon1, lat2, lon2 = map(radians, (latitude1, longitude1, latitude2, longitude2))
    half = sin((lat2 - lat1) / 2) ** 2 + cos(lat1) * cos(lat2) * sin((lon2 - lon1) / 2) ** 2
    return 2 * EARTH * asin(min(1.0, sqrt(half)))


@lru_cache(maxsize=4096)
def place(latitude: float, longitude: float) -> Place:
    """The nearest city if it is :data:`NEAR`, else the middle of the one-degree cell."""
    near = [city for city in CITIES if abs(city.latitude - latitude) < 1]
    apart = [distance(latitude, longitude, city.latitude, city.longitude) for city in near]
    if apart and min(apart) <= NEAR:
        return near[apart.index(min(apart))]
    cell = float(round(latitude)), float(round(longitude))
    return Place(*cell, int(2000 * _chances(*cell, "height", 0)[0] ** 3))


def weather(where: Place, when: date) -> Day:
    """The weather of a day."""
    latitude, number = where.latitude, when.toordinal()
    wetness, haze, *_ = _chances(latitude, where.longitude, "place", 0)
    warm, front, air, *_ = _swings(where, number)
    mood, high, low, shower, amount, wash, *_ = _chances(latitude, where.longitude, "day", number)
    season = cos(2 * pi * (when.timetuple().tm_yday - 200) / 365.25) * (1 if latitude >= 0 else -1)
    mean = 27.5 - 0.0066 * latitude**2 - 0.0055 * where.elevation + min(15.0, 0.3 * abs(latitude)) * season
    mean += 8 * (warm - 0.5) + 5 * (mood - 0.5)
    wet = wetness + front > 2.2 * shower
    water = -6 * log(1 - amount) if wet else 0.0
    frozen = min(1.0, max(0.0, (3 - mean) / 4))  # share of the precipitation that falls as snow
    return Day(
        high=round(mean + 2 + 5 * high, 1),
        low=round(mean - 2 - 5 * low, 1),
        mean=round(mean, 1),
        rain=round(water * (1 - frozen), 1),
        snow=round(water * frozen * 0.7, 1),
        air=int(5 + 50 * haze + 60 * air * (1 - 0.5 * wet * wash)),
    )


def _swings(where: Place, day: int) -> list[float]:
    """Eight numbers in [0, 1) that change slowly: interpolated between knots."""
    knot, rest = divmod(day, SWING)
    share = rest / SWING
    knots = (_chances(where.latitude, where.longitude, "knot", each) for each in (knot, knot + 1))
    return [(1 - share) * before + share * after for before, after in zip(*knots, strict=True)]
