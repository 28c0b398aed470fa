"""Films and people, and the tools: AgentGym's names and arguments, and The Movie Database's shapes of results."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from agentgym_rl.envs.tables import load
from agentgym_rl.envs.texts import read_texts
from agentgym_rl.envs.tooluse.tool import ECHO, Refused, ToolEnvTexts
from agentgym_rl.envs.tooluse.wording import values_only


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
    """Films and people. The tools are its methods."""

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

    def get_search_movie(self, movie_name: str) -> list[dict[str, Any]]:
        number = _find(movie_name, self.titles)
        if number is None:
            raise Refused(f"no film is called {movie_name[:ECHO]!r}")
        film = self.films[number]
        return [{"id": film.id, "overview": film.overviews["US"], "title": film.title}]

    def get_search_person(self, person_name: str) -> list[dict[str, Any]]:
        number = _find(person_name, self.names)
        if number is None:
            raise Refused(f"nobody is called {person_name[:ECHO]!r}")
        return [{"id": number, "name": self.people[number].name}]

    def get_movie_details(self, movie_id: str | int) -> dict[str, Any]:
        film = self._film(movie_id)
        return {
            "title": film.title,
            "budget": film.budget,
            "genres": [{"id": WORDS.genres[name], "name": name} for name in film.genres],
            "revenue": film.revenue,
            "vote_average": film.vote_average,
            "release_date": str(film.release_date),
        }

    def get_movie_production_companies(self, movie_id: str | int) -> dict[str, Any]:
        found = self._film(movie_id).companies
        return {
            "production_companies": [{"id": id, "name": name, "origin_country": country} for id, name, country in found]
        }

    def get_movie_production_countries(self, movie_id: str | int) -> dict[str, Any]:
        found = self._film(movie_id).countries
        return {"production_countries": [{"iso_3166_1": code, "name": WORDS.countries[code]} for code in found]}

    def get_movie_cast(self, movie_id: str | int) -> dict[str, Any]:
        found = self._film(movie_id).cast
        return {"cast": [{"id": who.id, "name": who.name, "character": role} for who, role in found]}

    def get_movie_crew(self, movie_id: str | int) -> dict[str, Any]:
        found = self._film(movie_id).crew
        return {"crew": [{"id": who.id, "name": who.name, "job": job} for who, job in found]}

    def get_movie_keywords(self, movie_id: str | int) -> dict[str, Any]:
        return {"keywords": list(self._film(movie_id).keywords)}

    def get_movie_alternative_titles(self, movie_id: str | int) -> dict[str, Any]:
        film = self._film(movie_id)
        return {
            "id": film.id,
            "titles": [{"iso_3166_1": land, "title": name, "type": ""} for land, name in film.alternative],
        }

    def get_movie_translation(self, movie_id: str | int) -> dict[str, Any]:
        film = self._film(movie_id)
        return {
            "id": film.id,
            "translations": [
                {
                    "iso_3166_1": land,
                    "iso_639_1": language.code,
                    "name": language.name,
                    "english_name": language.english,
                    "data": {"overview": film.overviews[land]},
                }
                for land, language in WORDS.languages.items()
            ],
        }

    def get_person_details(self, person_id: str | int) -> dict[str, Any]:
        who = self._person(person_id)
        jobs = sorted({job.lower() for _, job in self.worked.get(who.id, ())})
        trade = ", ".join(["actor"] * (who.id in self.acted) + jobs) or "artist"
        return {
            "name": who.name,
            "biography": f"{who.name} is known as {trade} and comes from {who.birthplace.split(', ')[-1]}.",
            "birthday": str(who.birthday),
            "place_of_birth": who.birthplace,
        }

    def get_person_cast(self, person_id: str | int) -> dict[str, Any]:
        found = self.acted.get(self._person(person_id).id, ())
        return {"cast": [{"id": film.id, "title": film.title, "character": role} for film, role in found]}

    def get_person_crew(self, person_id: str | int) -> dict[str, Any]:
        found = self.worked.get(self._person(person_id).id, ())
        return {"crew": [{"id": film.id, "title": film.title, "job": job} for film, job in found]}

    def get_person_external_ids(self, person_id: str | int) -> dict[str, Any]:
        return dict(self._person(person_id).accounts)

    def _film(self, movie_id: str | int) -> Film:
        film = self.films.get(_number(movie_id))
        if film is None:
            raise Refused(f"there is no film with the id {str(movie_id)[:ECHO]}; get_search_movie finds ids")
        return film

    def _person(self, person_id: str | int) -> Person:
        person = self.people.get(_number(person_id))
        if person is None:
            raise Refused(f"there is no person with the id {str(person_id)[:ECHO]}; get_search_person finds ids")
        return person


def key(name: str) -> str:
    """A name without case and additional spaces."""
    return " ".join(name.casefold().split())


def _find(name: str, known: Mapping[str, int]) -> int | None:
    """The id of a name: of the whole name if it is known, else of the first that contains it."""
    wanted_key = key(name)
    if not wanted_key or wanted_key in known:
        return known.get(wanted_key)
    return next((number for each, number in known.items() if wanted_key in each), None)


def _number(value: str | int) -> int:
    if isinstance(value, int):
        return value
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else -1


TEXTS = read_texts(__file__, ToolEnvTexts)

FUNCTIONS = TEXTS.functions(TEXTS.methods(Database), dict.fromkeys(TEXTS.tools, values_only))
