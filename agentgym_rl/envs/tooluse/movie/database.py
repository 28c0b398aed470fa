"""Generated films and people. The database is the same on every machine and never changes."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache
from random import Random

from agentgym_rl.envs.tooluse.movie.tools import WORDS, Database, Film, Person, key
from agentgym_rl.envs.tooluse.names import NAMES

FILMS = 1_800
PEOPLE = 2_200
DIRECTORS = 650
CREDITS = 9
"""Most films a person acts in, and most a person works for otherwise: lists of ten are never cut."""

CHARACTERS = tuple(f"{trait} {name}" for trait in WORDS.traits for name in (*NAMES.given, *NAMES.family))
STUDIOS = tuple(f"{first} {last}" for first in WORDS.adjectives[:12] for last in WORDS.studios)


@lru_cache(maxsize=1)
def database() -> Database:
    """All films and people."""
    rng = Random("movie 0")
    ids, names = _ids(rng, PEOPLE), rng.sample(NAMES.full, PEOPLE)
    people = [_person(rng, number, name) for number, name in zip(ids, names, strict=True)]
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
    free: dict[int, Person] = {}
    while len(free) < count:
        person = rng.choice(people)
        if len(credits.get(person.id, ())) < CREDITS:
            free[person.id] = person
    return list(free.values())


def _ids(rng: Random, count: int) -> list[int]:
    return rng.sample(range(10_000, 1_000_000), count)


def _titles(rng: Random) -> list[str]:
    """Titles and alternative titles, all different."""
    titles: dict[str, None] = {}
    while len(titles) < 5 * FILMS:
        noun, other = rng.sample(WORDS.nouns, 2)
        title = rng.choice(WORDS.titles).format(adjective=rng.choice(WORDS.adjectives), noun=noun, other=f"the {other}")
        titles[re.sub("^A (?=[AEIOU])", "An ", title)] = None
    return list(titles)


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
        companies=tuple(
            (4_000 + STUDIOS.index(name), name, rng.choice(countries))
            for name in rng.sample(STUDIOS, rng.choice((1, 1, 2, 2, 3)))
        ),
        countries=countries,
        keywords=tuple(rng.sample(WORDS.keywords, rng.randint(3, 6))),
        cast=tuple(zip(actors, characters, strict=True)),
        crew=tuple(zip(staff, jobs, strict=False)),
        alternative=tuple((land, titles.pop()) for land in rng.sample(sorted(WORDS.countries), rng.randint(1, 4))),
    )
