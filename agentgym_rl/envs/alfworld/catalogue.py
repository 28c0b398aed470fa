"""What stands in which room, what lies where, and what can be done with it. Names are ALFWorld's."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OPENABLE = frozenset(("cabinet", "drawer", "fridge", "microwave", "safe"))
"""Receptacles that start closed; the others have no door."""

APPLIANCES: Mapping[str, str] = MappingProxyType({"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"})
"""Where an object is cleaned, heated or cooled."""

LAMP = "desklamp"
LAMP_PLACES = ("coffeetable", "desk", "diningtable", "dresser", "shelf", "sidetable")

_HANDLED = {
    "clean": "apple bowl butterknife cloth cup dishsponge egg fork kettle knife ladle lettuce mug pan plate pot potato "
    "soapbar spatula spoon tomato",
    "heat": "apple bread cup egg mug plate potato tomato",
    "cool": "apple bowl bread cup egg lettuce mug pan plate pot potato tomato winebottle",
}

HANDLED: Mapping[str, frozenset[str]] = MappingProxyType(
    {verb: frozenset(things.split()) for verb, things in _HANDLED.items()}
)
"""Objects that can be cleaned, heated or cooled."""

ROOMS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "kitchen": {
            "cabinet": 6,
            "coffeemachine": 1,
            "countertop": 3,
            "diningtable": 1,
            "drawer": 5,
            "fridge": 1,
            "garbagecan": 1,
            "microwave": 1,
            "shelf": 3,
            "sidetable": 1,
            "sinkbasin": 1,
            "stoveburner": 4,
            "toaster": 1,
        },
        "bathroom": {
            "bathtubbasin": 1,
            "cabinet": 4,
            "countertop": 1,
            "drawer": 4,
            "garbagecan": 1,
            "handtowelholder": 2,
            "shelf": 3,
            "sinkbasin": 2,
            "toilet": 1,
            "toiletpaperhanger": 1,
            "towelholder": 2,
        },
        "bedroom": {
            "armchair": 1,
            "bed": 1,
            "desk": 2,
            "drawer": 6,
            "dresser": 1,
            "garbagecan": 1,
            "laundryhamper": 1,
            "safe": 1,
            "shelf": 5,
            "sidetable": 2,
        },
        "livingroom": {
            "armchair": 2,
            "cabinet": 4,
            "coffeetable": 1,
            "diningtable": 1,
            "drawer": 5,
            "dresser": 1,
            "garbagecan": 1,
            "ottoman": 1,
            "safe": 1,
            "shelf": 4,
            "sidetable": 3,
            "sofa": 1,
            "tvstand": 1,
        },
    }
)
"""Receptacles a room may have, and how many of each at most."""

_KITCHEN = ("kitchen",)
_BATHROOM = ("bathroom",)
_LIVING = ("bedroom", "livingroom")
_TABLES = "coffeetable desk diningtable dresser shelf sidetable tvstand"

_GROUPS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("apple bread egg lettuce potato tomato", _KITCHEN, "countertop diningtable fridge garbagecan microwave sinkbasin"),
    ("bowl cup plate", _KITCHEN, "cabinet countertop diningtable fridge microwave shelf sidetable sinkbasin"),
    ("mug", _KITCHEN, "cabinet coffeemachine countertop diningtable fridge microwave shelf sidetable sinkbasin"),
    ("butterknife fork knife spoon", _KITCHEN, "countertop diningtable drawer sidetable sinkbasin"),
    ("ladle spatula", _KITCHEN, "cabinet countertop diningtable drawer sinkbasin"),
    ("kettle", _KITCHEN, "cabinet countertop shelf sinkbasin stoveburner"),
    ("pan pot", _KITCHEN, "cabinet countertop diningtable fridge sinkbasin stoveburner"),
    ("peppershaker saltshaker", _KITCHEN, "cabinet countertop diningtable drawer shelf sidetable"),
    ("glassbottle winebottle", _KITCHEN, "cabinet countertop diningtable fridge garbagecan shelf"),
    ("dishsponge", ("kitchen", "bathroom"), "bathtubbasin cabinet countertop drawer garbagecan shelf sinkbasin"),
    ("soapbottle", ("kitchen", "bathroom"), "cabinet countertop drawer garbagecan shelf sinkbasin toilet"),
    ("cloth", _BATHROOM, "bathtubbasin cabinet countertop drawer garbagecan shelf sinkbasin toilet"),
    ("soapbar", _BATHROOM, "bathtubbasin cabinet countertop drawer garbagecan shelf sinkbasin toilet"),
    ("toiletpaper", _BATHROOM, "cabinet countertop drawer garbagecan shelf toilet toiletpaperhanger"),
    ("candle spraybottle", _BATHROOM, "cabinet countertop drawer garbagecan shelf toilet"),
    ("handtowel", _BATHROOM, "bathtubbasin countertop handtowelholder sinkbasin toilet"),
    ("towel", _BATHROOM, "towelholder"),
    ("cd pen pencil", _LIVING, f"{_TABLES} drawer garbagecan safe"),
    ("cellphone creditcard keychain", _LIVING, f"{_TABLES} armchair bed drawer ottoman safe sofa"),
    ("remotecontrol watch", _LIVING, f"{_TABLES} armchair drawer ottoman safe sofa"),
    ("book laptop newspaper", _LIVING, f"{_TABLES} armchair bed ottoman sofa"),
    ("alarmclock statue tissuebox vase", _LIVING, _TABLES),
    ("box", _LIVING, f"{_TABLES} armchair ottoman sofa"),
    ("pillow", _LIVING, "armchair bed ottoman sofa"),
    ("bowl mug", ("bedroom",), "desk dresser shelf sidetable"),
    ("cloth", ("bedroom",), "drawer dresser laundryhamper"),
)
"""Objects, the rooms they belong to, and the receptacles that hold them there."""

PLACES: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        room: {
            thing: tuple(place for place in ROOMS[room] if place in places.split())
            for things, rooms, places in _GROUPS
            if room in rooms
            for thing in things.split()
        }
        for room in ROOMS
    }
)
"""By room and object: the receptacles of the room that can hold the object."""
