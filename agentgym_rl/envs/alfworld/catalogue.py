"""What stands in which room, what lies where, and what can be done with it, from ``catalogue.toml``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym_rl.envs.tables import load


@dataclass(frozen=True)
class Group:
    """Objects, the rooms they belong to, and the receptacles that hold them there."""

    objects: str
    rooms: str
    receptacles: str


@dataclass(frozen=True)
class Catalogue:
    """The file."""

    openable: str
    lamp_places: str
    appliances: dict[str, str]
    handled: dict[str, str]
    rooms: dict[str, dict[str, int]]
    groups: tuple[Group, ...]


_FILE = load(Path(__file__).with_name("catalogue.toml"), Catalogue)

OPENABLE = frozenset(_FILE.openable.split())
"""Receptacles that start closed; the others have no door."""

LAMP = "desklamp"
LAMP_PLACES = tuple(_FILE.lamp_places.split())

APPLIANCES: Mapping[str, str] = _FILE.appliances
"""Where an object is cleaned, heated or cooled."""

HANDLED: Mapping[str, frozenset[str]] = {verb: frozenset(things.split()) for verb, things in _FILE.handled.items()}
"""Objects that can be cleaned, heated or cooled."""

ROOMS: Mapping[str, Mapping[str, int]] = _FILE.rooms
"""Receptacles a room may have, and how many of each at most."""

PLACES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    room: {
        thing: tuple(place for place in receptacles if place in group.receptacles.split())
        for group in _FILE.groups
        if room in group.rooms.split()
        for thing in group.objects.split()
    }
    for room, receptacles in ROOMS.items()
}
"""By room and object: the receptacles of the room that can hold the object."""
