"""Questions about one film or one person."""

from __future__ import annotations

from agentgym_rl.envs.tooluse.movie.database import WORDS, Database
from agentgym_rl.envs.tooluse.movie.draft import MovieDraft
from agentgym_rl.envs.tooluse.problem import Problem, yes

ROUNDED = 0.01
"""Tolerance of ratings."""


def fact(draft: MovieDraft) -> Problem[Database] | None:
    """Date, money or rating of a film."""
    film = draft.film()
    details = draft.about("details", film)
    field = draft.rng.choice(["release_date", "budget", "revenue", "vote_average"])
    return draft.ask(field, details[field], ROUNDED, film=film)


def profit(draft: MovieDraft) -> Problem[Database] | None:
    """What a film earned beyond its budget, or whether it did."""
    film = draft.film()
    details = draft.about("details", film)
    gain = details["revenue"] - details["budget"]
    if draft.rng.random() < 0.5:
        return draft.ask("gains", yes(gain > 0), film=film)
    return draft.ask("profit", gain, 0.5, film=film) if gain > 0 else None


def genre(draft: MovieDraft) -> Problem[Database] | None:
    """The genres of a film, or whether one is among them."""
    film = draft.film()
    genres = [each["name"] for each in draft.about("details", film)["genres"]]
    if draft.rng.random() < 0.5:
        return draft.ask("genres", genres, film=film)
    one = draft.rng.choice(genres) if draft.rng.random() < 0.5 else draft.rng.choice(list(WORDS.genres))
    return draft.ask("has_genre", yes(one in genres), film=film, one=one)


def staff(draft: MovieDraft) -> Problem[Database] | None:
    """Who did a job."""
    film = draft.film()
    crew = draft.about("crew", film)
    job = draft.rng.choice([each["job"] for each in crew])
    names = [each["name"] for each in crew if each["job"] == job]
    if len(names) > 1:
        return draft.ask("several_staff", names, film=film, job=job)
    return draft.ask("staff", names[0], film=film, job=job)


def role(draft: MovieDraft) -> Problem[Database] | None:
    """Who plays a character, or which one someone plays."""
    film = draft.film()
    one = draft.rng.choice(draft.about("cast", film))
    if draft.rng.random() < 0.5:
        return draft.ask("actor", one["name"], film=film, character=one["character"])
    return draft.ask("role", one["character"], film=film, name=one["name"])


def origin(draft: MovieDraft) -> Problem[Database] | None:
    """Who produced a film, and where."""
    film = draft.film()
    topic = draft.rng.choice(("companies", "countries"))
    names = [each["name"] for each in draft.about(f"production_{topic}", film)]
    if draft.rng.random() < 0.5:
        return draft.ask("origin", names, film=film, topic=topic)
    if topic == "countries":
        noun, others = "country", list(WORDS.countries.values())
    else:
        noun, others = "company", [name for _, name, _ in draft.film().companies]
    one = draft.rng.choice(names) if draft.rng.random() < 0.5 else draft.rng.choice(others)
    return draft.ask("has_origin", yes(one in names), film=film, one=one, noun=noun)


def keywords(draft: MovieDraft) -> Problem[Database] | None:
    """The keywords of a film, or whether one is among them."""
    film = draft.film()
    words = draft.about("keywords", film)
    if draft.rng.random() < 0.5:
        return draft.ask("keywords", words, film=film)
    one = draft.rng.choice(words) if draft.rng.random() < 0.5 else draft.rng.choice(WORDS.keywords)
    return draft.ask("has_keyword", yes(one in words), film=film, one=one)


def abroad(draft: MovieDraft) -> Problem[Database] | None:
    """The title of a film in another country, or its overview in another language."""
    film = draft.film()
    number = draft.find(film)
    if draft.rng.random() < 0.5:
        one = draft.rng.choice(draft.about("alternative_titles", number)["titles"])
        return draft.ask("title_abroad", one["title"], film=film, country=WORDS.countries[one["iso_3166_1"]])
    one = draft.rng.choice(draft.about("translation", number)["translations"])
    if one["iso_3166_1"] == "US":
        return None
    return draft.ask("overview", one["data"]["overview"], film=film, language=one["english_name"])


def person(draft: MovieDraft) -> Problem[Database] | None:
    """When and where someone was born, or an account of theirs."""
    someone = draft.actor()
    number = draft.find_person(someone)
    if draft.rng.random() < 0.5:
        return draft.ask_birth(number, someone.name)
    return draft.ask_account(number, someone.name)


def films_of(draft: MovieDraft) -> Problem[Database] | None:
    """How many films someone acted in, or which ones someone directed."""
    if draft.rng.random() < 0.5:
        someone = draft.actor()
        return draft.ask("films_acted", len(draft.who("cast", someone)), someone=someone)
    someone = draft.film().director
    return draft.ask("films_directed", [each["title"] for each in draft.directed(someone)], someone=someone)
