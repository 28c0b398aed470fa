"""The tools: AgentGym's names and arguments, and The Movie Database's shapes of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym_rl.envs.tooluse.movie.database import WORDS, Database, Film, Person, key
from agentgym_rl.envs.tooluse.tool import ECHO, Function, Refused, ToolEnvTexts
from agentgym_rl.envs.tooluse.wording import values_only


def _find(name: str, known: Mapping[str, int]) -> int | None:
    """The id of a name: of the whole name if it is known, else of the first that contains it."""
    wanted = key(name)
    if not wanted or wanted in known:
        return known.get(wanted)
    return next((number for each, number in known.items() if wanted in each), None)


def _search_movie(films: Database, movie_name: str) -> list[dict[str, Any]]:
    number = _find(movie_name, films.titles)
    if number is None:
        raise Refused(f"no film is called {movie_name[:ECHO]!r}")
    film = films.films[number]
    return [{"id": film.id, "overview": film.overviews["US"], "title": film.title}]


def _search_person(films: Database, person_name: str) -> list[dict[str, Any]]:
    number = _find(person_name, films.names)
    if number is None:
        raise Refused(f"nobody is called {person_name[:ECHO]!r}")
    return [{"id": number, "name": films.people[number].name}]


def _film(films: Database, movie_id: str | int) -> Film:
    found = films.films.get(_number(movie_id))
    if found is None:
        raise Refused(f"there is no film with the id {str(movie_id)[:ECHO]}; get_search_movie finds ids")
    return found


def _person(films: Database, person_id: str | int) -> Person:
    found = films.people.get(_number(person_id))
    if found is None:
        raise Refused(f"there is no person with the id {str(person_id)[:ECHO]}; get_search_person finds ids")
    return found


def _number(value: str | int) -> int:
    if isinstance(value, int):
        return value
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else -1


def _details(films: Database, movie_id: str | int) -> dict[str, Any]:
    film = _film(films, movie_id)
    return {
        "title": film.title,
        "budget": film.budget,
        "genres": [{"id": WORDS.genres[name], "name": name} for name in film.genres],
        "revenue": film.revenue,
        "vote_average": film.vote_average,
        "release_date": str(film.release_date),
    }


def _companies(films: Database, movie_id: str | int) -> dict[str, Any]:
    found = _film(films, movie_id).companies
    return {
        "production_companies": [{"id": id, "name": name, "origin_country": country} for id, name, country in found]
    }


def _countries(films: Database, movie_id: str | int) -> dict[str, Any]:
    found = _film(films, movie_id).countries
    return {"production_countries": [{"iso_3166_1": code, "name": WORDS.countries[code]} for code in found]}


def _cast(films: Database, movie_id: str | int) -> dict[str, Any]:
    found = _film(films, movie_id).cast
    return {"cast": [{"id": who.id, "name": who.name, "character": role} for who, role in found]}


def _crew(films: Database, movie_id: str | int) -> dict[str, Any]:
    found = _film(films, movie_id).crew
    return {"crew": [{"id": who.id, "name": who.name, "job": job} for who, job in found]}


def _keywords(films: Database, movie_id: str | int) -> dict[str, Any]:
    return {"keywords": list(_film(films, movie_id).keywords)}


def _alternative(films: Database, movie_id: str | int) -> dict[str, Any]:
    film = _film(films, movie_id)
    return {
        "id": film.id,
        "titles": [{"iso_3166_1": land, "title": name, "type": ""} for land, name in film.alternative],
    }


def _translation(films: Database, movie_id: str | int) -> dict[str, Any]:
    film = _film(films, movie_id)
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


def _person_details(films: Database, person_id: str | int) -> dict[str, Any]:
    who = _person(films, person_id)
    jobs = sorted({job.lower() for _, job in films.worked.get(who.id, ())})
    trade = ", ".join(["actor"] * (who.id in films.acted) + jobs) or "artist"
    return {
        "name": who.name,
        "biography": f"{who.name} is known as {trade} and comes from {who.birthplace.split(', ')[-1]}.",
        "birthday": str(who.birthday),
        "place_of_birth": who.birthplace,
    }


def _person_cast(films: Database, person_id: str | int) -> dict[str, Any]:
    found = films.acted.get(_person(films, person_id).id, ())
    return {"cast": [{"id": film.id, "title": film.title, "character": role} for film, role in found]}


def _person_crew(films: Database, person_id: str | int) -> dict[str, Any]:
    found = films.worked.get(_person(films, person_id).id, ())
    return {"crew": [{"id": film.id, "title": film.title, "job": job} for film, job in found]}


def _external_ids(films: Database, person_id: str | int) -> dict[str, Any]:
    return dict(_person(films, person_id).accounts)


TEXTS = ToolEnvTexts.beside(__file__)

FUNCTIONS: dict[str, Function[Database]] = TEXTS.functions(
    {
        "get_search_movie": _search_movie,
        "get_movie_details": _details,
        "get_movie_production_companies": _companies,
        "get_movie_production_countries": _countries,
        "get_movie_cast": _cast,
        "get_movie_crew": _crew,
        "get_movie_keywords": _keywords,
        "get_search_person": _search_person,
        "get_person_details": _person_details,
        "get_person_cast": _person_cast,
        "get_person_crew": _person_crew,
        "get_person_external_ids": _external_ids,
        "get_movie_alternative_titles": _alternative,
        "get_movie_translation": _translation,
    },
    dict.fromkeys(TEXTS.tools, values_only),
)
