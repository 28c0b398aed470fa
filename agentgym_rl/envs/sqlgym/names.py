"""Names of people, places and things in the built-in databases. None has a quotation mark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FIRST = _words(
    "Ada Amir Anna Aria Ben Bruno Carla Chloe Dan Dina Elias Emma Erik Fatima Felix Gita Hana Hugo Ines Ivan Jade "
    "Jonas Kai Kira Lars Lena Leo Lina Luis Maja Marco Mia Milan Nadia Nils Nora Omar Oskar Paula Petra Rafa Rosa "
    "Sami Sara Selma Tara Theo Timo Uma Vera Viktor Wanda Yara Yusuf Zoe"
)
_LAST = _words(
    "Abel Banks Berg Bond Castro Chen Cole Cruz Dahl Diaz Ekman Farr Finch Gray Haas Hale Holm Ito Jansen Kaya "
    "Khan Klein Lang Lopez Lund Marsh Meyer Moss Nagy Novak Okoro Olsen Park Patel Petrov Quist Reyes Rossi Sato "
    "Silva Stone Tanaka Urban Vance Vega Wolf Wood Yilmaz Young Ziegler"
)
_ADJECTIVES = _words(
    "Amber Blue Bright Broken Calm Crystal Dark Distant Empty Golden Green Hidden High Hollow Last Little Long "
    "Lost Lunar Quiet Red Royal Secret Silent Silver Small Stone Sunny Velvet White Wild Winter"
)
_NOUNS = _words(
    "Anchor Arrow Bell Bridge Candle Canyon Castle Cloud Compass Crown Feather Field Forest Fountain Garden Gate "
    "Harbor Island Lantern Meadow Mirror Mountain Orchard Path Pearl River Shore Star Tower Valley Wave Window"
)
_STARTS = _words(
    "Ash Black Brook Clear Copper East Elm Fair Fox Glen Hazel Iron Kings Lake Maple Mill New North Oak Pine Rock "
    "Sand South Spring Sun Thorn West Wolf"
)
_ENDS = _words("bridge burg bury dale field ford ham haven mouth port stead ton vale view wick wood worth")
_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"


def person(rng: Random) -> str:
    return f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"


def title(rng: Random) -> str:
    return f"{rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}"


def place(rng: Random) -> str:
    return rng.choice(_STARTS) + rng.choice(_ENDS)


def firm(rng: Random) -> str:
    return f"{rng.choice(_LAST)} {rng.choice(('Brothers', 'Group', 'Partners', 'Trading', 'Works'))}"


def code(rng: Random) -> str:
    return f"{rng.choice(_LETTERS)}{rng.choice(_LETTERS)}-{rng.randint(100, 999)}"


NAMES: Mapping[str, Callable[[Random], str]] = {
    "person": person,
    "title": title,
    "place": place,
    "firm": firm,
    "code": code,
}
"""Makers of names, by kind."""
