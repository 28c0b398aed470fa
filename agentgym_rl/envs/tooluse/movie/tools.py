"""The tools of the world: AgentGym's names and arguments, and The Movie Database's shapes of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym_rl.envs.tools import Schema, Tool
from agentgym_rl.envs.tooluse.movie.database import Database, Film, Person, key
from agentgym_rl.envs.tooluse.movie.words import COUNTRIES, GENRES, LANGUAGES
from agentgym_rl.envs.tooluse.tool import ECHO, Function, Refused


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
        "genres": [{"id": GENRES[name], "name": name} for name in film.genres],
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
    return {"production_countries": [{"iso_3166_1": code, "name": COUNTRIES[code]} for code in found]}


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
                "iso_639_1": code,
                "name": name,
                "english_name": english,
                "data": {"overview": film.overviews[land]},
            }
            for land, (code, name, english, _) in LANGUAGES.items()
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


def _brief(found: Any) -> str:
    """A result without the names of its fields."""
    if isinstance(found, Mapping):
        return " | ".join(_brief(value) for value in found.values())
    if isinstance(found, list):
        return "; ".join(_brief(value) for value in found)
    return str(found)


def _by_id(kind: str, name: str, description: str, returns: str, run: Callable[..., Any]) -> Function[Database]:
    number: Schema = {"type": ["string", "integer"], "description": f"id of the {'film' if kind == 'movie' else kind}"}
    return Function(Tool(name, description, {f"{kind}_id": number}), returns, run, _brief)


FUNCTIONS: tuple[Function[Database], ...] = (
    Function(
        Tool(
            "get_search_movie",
            "Find a film by its title.",
            {"movie_name": {"type": "string", "description": "title of the film"}},
        ),
        "id, overview and title of the film that fits best",
        _search_movie,
        _brief,
    ),
    _by_id(
        "movie",
        "get_movie_details",
        "Look up the main facts of a film.",
        "title, budget, genres, revenue, vote_average (the rating) and release_date",
        _details,
    ),
    _by_id(
        "movie",
        "get_movie_production_companies",
        "Look up who produced a film.",
        "production_companies, with id, name and country of each",
        _companies,
    ),
    _by_id(
        "movie",
        "get_movie_production_countries",
        "Look up where a film was produced.",
        "production_countries, with code and name of each",
        _countries,
    ),
    _by_id(
        "movie",
        "get_movie_cast",
        "List the actors of a film, at most 10.",
        "cast: id, name and character of each",
        _cast,
    ),
    _by_id(
        "movie",
        "get_movie_crew",
        "List others who made a film, at most 10: director, producers, writers and more.",
        "crew: id, name and job of each",
        _crew,
    ),
    _by_id("movie", "get_movie_keywords", "List the keywords of a film.", "keywords", _keywords),
    Function(
        Tool(
            "get_search_person",
            "Find a person by name.",
            {"person_name": {"type": "string", "description": "name of the person"}},
        ),
        "id and name of the person that fits best",
        _search_person,
        _brief,
    ),
    _by_id(
        "person",
        "get_person_details",
        "Look up the main facts of a person.",
        "name, biography, birthday and place_of_birth",
        _person_details,
    ),
    _by_id(
        "person",
        "get_person_cast",
        "List the films a person acted in, at most 10.",
        "cast: id and title of each film, and the character",
        _person_cast,
    ),
    _by_id(
        "person",
        "get_person_crew",
        "List the films a person worked for otherwise, at most 10.",
        "crew: id and title of each film, and the job",
        _person_crew,
    ),
    _by_id(
        "person",
        "get_person_external_ids",
        "Look up a person's identifiers elsewhere.",
        "imdb_id, facebook_id, instagram_id and twitter_id",
        _external_ids,
    ),
    _by_id(
        "movie",
        "get_movie_alternative_titles",
        "List a film's titles in other countries.",
        "titles, with the country's code",
        _alternative,
    ),
    _by_id(
        "movie",
        "get_movie_translation",
        "List the overview of a film in other languages.",
        "translations, with language and country of each",
        _translation,
    ),
)

BY_TOOL: Mapping[str, Function[Database]] = {function.tool.name: function for function in FUNCTIONS}
