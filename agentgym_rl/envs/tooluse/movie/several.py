"""Questions that lead over several films or people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym_rl.envs.tooluse.movie.database import Database, Film
from agentgym_rl.envs.tooluse.movie.draft import MovieDraft
from agentgym_rl.envs.tooluse.problem import Problem, yes

BEST = {
    "vote_average": ("has the higher rating", "has the highest rating"),
    "revenue": ("had the higher revenue", "had the highest revenue"),
    "budget": ("had the higher budget", "had the highest budget"),
    "release_date": ("was released later", "was released last"),
}
"""Fields, and the words for their greatest value, of two films and of more."""

SHARED: Mapping[str, tuple[str, str, Callable[[Film], set[Any]]]] = {
    "genre": ("details", "genre", lambda film: {*film.genres}),
    "country": ("production_countries", "production country", lambda film: {*film.countries}),
    "company": ("production_companies", "production company", lambda film: {id for id, *_ in film.companies}),
    "director": ("crew", "director", lambda film: {film.director.id}),
}
"""What two films may have in common: part of the tool's name, the word for it, the values of a film."""


def of_the_maker(draft: MovieDraft) -> Problem[Database] | None:
    """Birth of a film's director, or of who plays a character."""
    film = draft.film()
    number = draft.find(film)
    if draft.rng.random() < 0.5:
        who, someone = f'the director of the film "{film.title}"', draft.director(number)
    else:
        character = draft.rng.choice(film.cast)[1]
        who, someone = f'the one who plays {character} in the film "{film.title}"', draft.actor_of(number, character)
    return draft.ask_account(someone, who) if draft.rng.random() < 0.5 else draft.ask_birth(someone, who)


def other_role(draft: MovieDraft) -> Problem[Database] | None:
    """The character that the actor of a character plays in another film."""
    film = draft.film()
    character = draft.rng.choice(film.cast)[1]
    roles = draft.who("cast", draft.actor_of(film, character))
    others = [each for each in roles if each["title"] != film.title]
    if not others:
        return None
    other = draft.rng.choice(others)
    return draft.ask("other_role", other["character"], film=film, character=character, other=other["title"])


def directed_by_maker(draft: MovieDraft) -> Problem[Database] | None:
    """How many films a film's director directed."""
    film = draft.film()
    return draft.ask("directed_by_maker", len(draft.directed(draft.director(film))), film=film)


def film_of_role(draft: MovieDraft) -> Problem[Database] | None:
    """Date or revenue of the film in which someone plays a character."""
    someone = draft.actor()
    one = draft.rng.choice(draft.who("cast", someone))
    details = draft.about("details", str(one["id"]))
    goal, field = ("role_released", "release_date") if draft.rng.random() < 0.5 else ("role_revenue", "revenue")
    return draft.ask(goal, details[field], someone=someone, character=one["character"])


def better_of(draft: MovieDraft) -> Problem[Database] | None:
    """Which of two or three films has more of something."""
    films = draft.films(draft.rng.choice((2, 3)))
    field = draft.rng.choice(list(BEST))
    values = [draft.about("details", film)[field] for film in films]
    if _repeats(values):
        return None
    titles = [f'"{film.title}"' for film in films]
    names = f"{', '.join(titles[:-1])} or {titles[-1]}"
    answer = films[values.index(max(values))].title
    return draft.ask("better_of", answer, best=BEST[field][len(films) > 2], names=names)


def in_common(draft: MovieDraft) -> Problem[Database] | None:
    """Whether two films share a genre, country, company or director."""
    tool, noun, values = SHARED[draft.rng.choice(list(SHARED))]
    first = draft.film()
    if draft.rng.random() < 0.6:  # most pairs share nothing: look for one that does
        others = [film for film in draft.films(100) if film is not first and values(first) & values(film)]
        if not others:
            return None
        second = others[0]
    else:
        second = draft.film()
    if first is second:
        return None
    for film in (first, second):
        draft.about(tool, film)
    return draft.ask("in_common", yes(bool(values(first) & values(second))), first=first, second=second, noun=noun)


def together(draft: MovieDraft) -> Problem[Database] | None:
    """The one film two people act in."""
    film = draft.film()
    first, second = (person for person, _ in draft.rng.sample(film.cast, 2))
    seen = [{each["title"] for each in draft.who("cast", person)} for person in (first, second)]
    if len(seen[0] & seen[1]) > 1:
        return None
    return draft.ask("together", film.title, first=first, second=second)


def older(draft: MovieDraft) -> Problem[Database] | None:
    """Which of two people is the older one, or which of the actors of three characters."""
    if draft.rng.random() < 0.5:
        people = [draft.actor(), draft.actor()]
        born = [draft.who("details", person)["birthday"] for person in people]
        if _repeats(born):
            return None
        first, second = (person.name for person in people)
        return draft.ask("older", people[born.index(min(born))].name, first=first, second=second)
    film = draft.film()
    roles = draft.rng.sample(draft.about("cast", film), 3)
    born = [draft.who("details", str(each["id"]))["birthday"] for each in roles]
    if _repeats(born):
        return None
    names = [each["character"] for each in roles]
    return draft.ask("oldest", roles[born.index(min(born))]["name"], names=names, film=film)


def best_of_maker(draft: MovieDraft) -> Problem[Database] | None:
    """The film by a film's director that has most of something."""
    film = draft.film()
    directed = draft.directed(draft.director(film))
    if not 2 <= len(directed) <= 5:
        return None
    field = draft.rng.choice(list(BEST))
    values = [draft.about("details", str(each["id"]))[field] for each in directed]
    if _repeats(values):
        return None
    answer = directed[values.index(max(values))]["title"]
    return draft.ask("best_of_maker", answer, film=film, best=BEST[field][len(directed) > 2])


def career(draft: MovieDraft) -> Problem[Database] | None:
    """The first film someone acted in, or what all of them earned."""
    someone = draft.actor()
    films = draft.who("cast", someone)
    if not 3 <= len(films) <= 5:
        return None
    details = [draft.about("details", str(each["id"])) for each in films]
    if draft.rng.random() < 0.5:
        return draft.ask("total_revenue", sum(each["revenue"] for each in details), 0.5, someone=someone)
    dates = [each["release_date"] for each in details]
    if _repeats(dates):
        return None
    return draft.ask("first_film", films[dates.index(min(dates))]["title"], someone=someone)


def two_makers(draft: MovieDraft) -> Problem[Database] | None:
    """The older of the directors of two films."""
    films = draft.films(2)
    makers = [draft.who("details", draft.director(film)) for film in films]
    born = [each["birthday"] for each in makers]
    if _repeats(born):
        return None
    first, second = (f'the director of "{film.title}"' for film in films)
    return draft.ask("older", makers[born.index(min(born))]["name"], first=first, second=second)


def _repeats(values: list[Any]) -> bool:
    """Whether two values are equal."""
    return len(set(values)) < len(values)
