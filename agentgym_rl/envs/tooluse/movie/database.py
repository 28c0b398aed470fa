"""Generated films and people. The database is the same on every machine and never changes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from random import Random

from agentgym_rl.envs.tables import load
from agentgym_rl.envs.tooluse.names import NAMES

FILMS = 1_800
PEOPLE = 2_200
DIRECTORS = 650
CREDITS = 9
"""Most films a person acts in, and most a person works for otherwise: lists of ten are never cut."""


@dataclass(frozen=True, slots=True)
class Language:
    code: str
    name: str
    english: str
    overview: str


@dataclass(frozen=True, slots=True)
class Words:
    """What films are made of: the file ``words.toml``."""

    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]
    titles: tuple[str, ...]
    """Patterns."""
    traits: tuple[str, ...]
    studios: tuple[str, ...]
    keywords: tuple[str, ...]
    birthplaces: tuple[str, ...]
    jobs: tuple[str, ...]
    themes: tuple[dict[str, str], ...]
    genres: dict[str, int]
    countries: dict[str, str]
    languages: dict[str, Language]


WORDS = load(Path(__file__).with_name("words.toml"), Words)

CHARACTERS = tuple(f"{trait} {name}" for trait in WORDS.traits for name in (*NAMES.given, *NAMES.family))
STUDIOS = tuple(f"{first} {last}" for first in WORDS.adjectives[:12] for last in WORDS.studios)


@dataclass(frozen=True, slots=True)
class Person:
    id: int
    name: str
    birthday: date
    birthplace: str
    accounts: Mapping[str, str | None]
    """External identifiers, or None."""


@dataclass(frozen=True, slots=True)
class Film:
    """``cast`` holds (person, character), ``crew`` (person, job) with exactly one director."""

    id: int
    title: str
    overviews: Mapping[str, str]
    """By country of the language."""
    genres: tuple[str, ...]
    budget: int
    revenue: int
    vote_average: float
    release_date: date
    companies: tuple[tuple[int, str, str], ...]
    """Number, name and country."""
    countries: tuple[str, ...]
    keywords: tuple[str, ...]
    cast: tuple[tuple[Person, str], ...]
    crew: tuple[tuple[Person, str], ...]
    alternative: tuple[tuple[str, str], ...]
    """Country and title there."""

    @property
    def director(self) -> Person:
        return next(person for person, job in self.crew if job == "Director")


@dataclass(frozen=True, eq=False)
class Database:
    films: Mapping[int, Film]
    people: Mapping[int, Person]
    acted: Mapping[int, tuple[tuple[Film, str], ...]]
    """Films and characters by a person's id."""
    worked: Mapping[int, tuple[tuple[Film, str], ...]]
    """Films and jobs by a person's id."""
    titles: Mapping[str, int]
    """Films' ids by :func:`key` of the title."""
    names: Mapping[str, int]
    """People's ids by :func:`key` of the name."""


def key(name: str) -> str:
    """A name without case and additional spaces."""
    return " ".join(name.casefold().split())


@lru_cache(maxsize=1)
def database() -> Database:
    """All films and people."""
    rng = Random("movie 0")
    people = [_person(rng, number, name) for number, name in zip(_ids(rng, PEOPLE), _names(rng), strict=True)]
    titles = _titles(rng)
    acted: dict[int, list[tuple[Film, str]]] = defaultdict(list)
    worked: dict[int, list[tuple[Film, str]]] = defaultdict(list)
    films = {}
    for number in _ids(rng, FILMS):
        actors = _free(rng, people, acted, rng.randint(4, 8))
        director = _free(rng, people[:DIRECTORS], worked, 1)
        staff = _free(rng, people[DIRECTORS:], worked, rng.randint(3, 8))
        film = _film(rng, number, titles, actors, [*director, *staff])
        films[number] = film
        for person, character in film.cast:
            acted[person.id].append((film, character))
        for person, job in film.crew:
            worked[person.id].append((film, job))
    return Database(
        films,
        {person.id: person for person in people},
        {number: tuple(credits) for number, credits in acted.items()},
        {number: tuple(credits) for number, credits in worked.items()},
        {key(film.title): film.id for film in films.values()},
        {key(person.name): person.id for person in people},
    )


def _free(
    rng: Random, people: Sequence[Person], credits: Mapping[int, list[tuple[Film, str]]], count: int
) -> list[Person]:
    """``count`` different people who may have one more credit."""
    found: dict[int, Person] = {}
    while len(found) < count:
        person = rng.choice(people)
        if len(credits.get(person.id, ())) < CREDITS:
            found[person.id] = person
    return list(found.values())


def _ids(rng: Random, count: int) -> list[int]:
    return rng.sample(range(10_000, 1_000_000), count)


def _names(rng: Random) -> list[str]:
    return rng.sample(NAMES.full, PEOPLE)


def _titles(rng: Random) -> list[str]:
    """Titles and alternative titles, all different."""
    found: dict[str, None] = {}
    while len(found) < 5 * FILMS:
        noun, other = rng.sample(WORDS.nouns, 2)
        title = rng.choice(WORDS.titles).format(adjective=rng.choice(WORDS.adjectives), noun=noun, other=f"the {other}")
        found[re.sub("^A (?=[AEIOU])", "An ", title)] = None
    return list(found)


def _person(rng: Random, number: int, name: str) -> Person:
    handle = name.lower().replace(" ", rng.choice(("", "_", ".")))
    given, family = name.lower().split()
    return Person(
        number,
        name,
        date(1930, 1, 1) + timedelta(rng.randrange(25_000)),
        rng.choice(WORDS.birthplaces),
        {
            "imdb_id": f"nm{rng.randrange(10**6, 10**7):07d}",
            "facebook_id": f"{family}{given}{rng.randrange(100)}" if rng.random() < 0.7 else None,
            "instagram_id": handle if rng.random() < 0.7 else None,
            "twitter_id": f"{given[0]}{family}{rng.randrange(1000)}" if rng.random() < 0.7 else None,
        },
    )


def _film(rng: Random, number: int, titles: list[str], actors: list[Person], staff: list[Person]) -> Film:
    first, second = rng.sample(WORDS.themes, 2)
    jobs = ["Director", "Producer", "Writer", *rng.sample(WORDS.jobs, 6)]
    characters = rng.sample(CHARACTERS, len(actors))
    budget = rng.randrange(1, 200) * 10 ** rng.choice((5, 6))
    countries = tuple(rng.sample(sorted(WORDS.countries), rng.choice((1, 1, 1, 2, 2, 3))))
    return Film(
        id=number,
        title=titles.pop(),
        overviews={
            land: language.overview.format(first[land], second[land]) for land, language in WORDS.languages.items()
        },
        genres=tuple(rng.sample(sorted(WORDS.genres), rng.choice((1, 2, 2, 3)))),
        budget=budget,
        revenue=int(budget * rng.lognormvariate(0.3, 0.9)),
        vote_average=round(rng.triangular(3, 9, 6.5), 3),
        release_date=date(1962, 1, 1) + timedelta(rng.randrange(22_500)),
        companies=tuple((4_000 + STUDIOS.index(name), name, rng.choice(countries)) for name in _studios(rng)),
        countries=countries,
        keywords=tuple(rng.sample(WORDS.keywords, rng.randint(3, 6))),
        cast=tuple(zip(actors, characters, strict=True)),
        crew=tuple(zip(staff, jobs, strict=False)),
        alternative=tuple((land, titles.pop()) for land in rng.sample(sorted(WORDS.countries), rng.randint(1, 4))),
    )


def _studios(rng: Random) -> list[str]:
    return rng.sample(STUDIOS, rng.choice((1, 1, 2, 2, 3)))
