"""Invented names, so that nobody can know what they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

_ONSETS = ("b", "d", "dr", "h", "k", "kr", "l", "m", "n", "r", "t", "tr", "v")
_VOWELS = ("a", "e", "i", "o")
_CODAS = ("l", "n", "r", "s")
_SECOND_ONSETS = ("b", "d", "k", "m", "t", "v")
_ENDINGS = ("sk", "ld", "lth", "rn", "v", "k", "nth", "s")


def words(rng: Random) -> Iterator[str]:
    """Names of two closed syllables such as Keldask, none twice."""
    given = set()
    while True:
        word = _syllable(rng) + rng.choice(_SECOND_ONSETS) + rng.choice(_VOWELS) + rng.choice(_ENDINGS)
        if word not in given:
            given.add(word)
            yield word


def people(rng: Random, surnames: list[str]) -> Iterator[str]:
    """First names such as Keldo with one of the surnames, no pair twice."""
    first = sorted({_syllable(rng) + rng.choice(_SECOND_ONSETS) + rng.choice(_VOWELS) for _ in range(120)})
    given = set()
    while True:
        name = f"{rng.choice(first)} {rng.choice(surnames)}"
        if name not in given:
            given.add(name)
            yield name


def _syllable(rng: Random) -> str:
    return (rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)).capitalize()
