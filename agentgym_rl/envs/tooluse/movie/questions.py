"""Questions about one film or one person, then those that lead over several."""

from collections.abc import Callable, Mapping
from typing import Any

from agentgym_rl.envs.tooluse.movie.draft import MovieDraft
from agentgym_rl.envs.tooluse.movie.tools import WORDS, Database, Film
from agentgym_rl.envs.tooluse.problem import Problem, yes

ROUNDED = 0.01
"""Tolerance of ratings."""

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


def fact(draft: MovieDraft) -> Problem[Database]:
    """Date, money or rating of a film."""
    film = draft.film()
    details = draft.about("details", film)
    field = draft.rng.choice(["release_date", "budget", "revenue", "vote_average"])
    return draft.ask(field, details[field], ROUNDED, film=film)


def profit(draft: MovieDraft) -> Problem[Database]:
    """What a film earned beyond its budget, or whether it did."""
    film = draft.film()
    details = draft.about("details", film)
    gain = details["revenue"] - details["budget"]
    if draft.rng.random() < 0.5:
        return draft.ask("gains", yes(gain > 0), film=film)
    draft.require(gain > 0)
    return draft.ask("profit", gain, 0.5, film=film)


def genre(draft: MovieDraft) -> Problem[Database]:
    """The genres of a film, or whether one is among them."""
    film = draft.film()
    genres = [each["name"] for each in draft.about("details", film)["genres"]]
    if draft.rng.random() < 0.5:
        return draft.ask("genres", genres, film=film)
    genre_asked = draft.rng.choice(genres) if draft.rng.random() < 0.5 else draft.rng.choice(list(WORDS.genres))
    return draft.ask("has_genre", yes(genre_asked in genres), film=film, one=genre_asked)


def staff(draft: MovieDraft) -> Problem[Database]:
    """Who did a job."""
    film = draft.film()
    crew = draft.about("crew", film)
    job = draft.rng.choice([each["job"] for each in crew])
    names = [each["name"] for each in crew if each["job"] == job]
    if len(names) > 1:
        return draft.ask("several_staff", names, film=film, job=job)
    return draft.ask("staff", names[0], film=film, job=job)


def role(draft: MovieDraft) -> Problem[Database]:
    """Who plays a character, or which one someone plays."""
    film = draft.film()
    role_asked = draft.rng.choice(draft.about("cast", film))
    if draft.rng.random() < 0.5:
        return draft.ask("actor", role_asked["name"], film=film, character=role_asked["character"])
    return draft.ask("role", role_asked["character"], film=film, name=role_asked["name"])


def origin(draft: MovieDraft) -> Problem[Database]:
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
    origin_asked = draft.rng.choice(names) if draft.rng.random() < 0.5 else draft.rng.choice(others)
    return draft.ask("has_origin", yes(origin_asked in names), film=film, one=origin_asked, noun=noun)


def keywords(draft: MovieDraft) -> Problem[Database]:
    """The keywords of a film, or whether one is among them."""
    film = draft.film()
    words = draft.about("keywords", film)
    if draft.rng.random() < 0.5:
        return draft.ask("keywords", words, film=film)
    keyword = draft.rng.choice(words) if draft.rng.random() < 0.5 else draft.rng.choice(WORDS.keywords)
    return draft.ask("has_keyword", yes(keyword in words), film=film, one=keyword)


def abroad(draft: MovieDraft) -> Problem[Database]:
    """The title of a film in another country, or its overview in another language."""
    film = draft.film()
    number = draft.find(film)
    if draft.rng.random() < 0.5:
        entry = draft.rng.choice(draft.about("alternative_titles", number)["titles"])
        return draft.ask("title_abroad", entry["title"], film=film, country=WORDS.countries[entry["iso_3166_1"]])
    entry = draft.rng.choice(draft.about("translation", number)["translations"])
    draft.require(entry["iso_3166_1"] != "US")
    return draft.ask("overview", entry["data"]["overview"], film=film, language=entry["english_name"])


def person(draft: MovieDraft) -> Problem[Database]:
    """When and where someone was born, or an account of theirs."""
    someone = draft.actor()
    number = draft.find_person(someone)
    if draft.rng.random() < 0.5:
        return draft.ask_birth(number, someone.name)
    return draft.ask_account(number, someone.name)


def films_of(draft: MovieDraft) -> Problem[Database]:
    """How many films someone acted in, or which ones someone directed."""
    if draft.rng.random() < 0.5:
        someone = draft.actor()
        return draft.ask("films_acted", len(draft.who("cast", someone)), someone=someone)
    someone = draft.film().director
    return draft.ask("films_directed", [each["title"] for each in draft.directed(someone)], someone=someone)


def of_the_maker(draft: MovieDraft) -> Problem[Database]:
    """Birth of a film's director, or of who plays a character."""
    film = draft.film()
    number = draft.find(film)
    if draft.rng.random() < 0.5:
        who, someone = f'the director of the film "{film.title}"', draft.director(number)
    else:
        character = draft.rng.choice(film.cast)[1]
        who, someone = f'the one who plays {character} in the film "{film.title}"', draft.actor_of(number, character)
    return draft.ask_account(someone, who) if draft.rng.random() < 0.5 else draft.ask_birth(someone, who)


def other_role(draft: MovieDraft) -> Problem[Database]:
    """The character that the actor of a character plays in another film."""
    film = draft.film()
    character = draft.rng.choice(film.cast)[1]
    roles = draft.who("cast", draft.actor_of(film, character))
    other = draft.rng.choice(draft.require([role for role in roles if role["title"] != film.title]))
    return draft.ask("other_role", other["character"], film=film, character=character, other=other["title"])


def directed_by_maker(draft: MovieDraft) -> Problem[Database]:
    """How many films a film's director directed."""
    film = draft.film()
    return draft.ask("directed_by_maker", len(draft.directed(draft.director(film))), film=film)


def film_of_role(draft: MovieDraft) -> Problem[Database]:
    """Date or revenue of the one film in which someone plays a character."""
    someone = draft.actor()
    parts = draft.who("cast", someone)
    part = draft.rng.choice(parts)
    draft.require([each["character"] for each in parts].count(part["character"]) == 1)
    details = draft.about("details", str(part["id"]))
    goal, field = ("role_released", "release_date") if draft.rng.random() < 0.5 else ("role_revenue", "revenue")
    return draft.ask(goal, details[field], someone=someone, character=part["character"])


def better_of(draft: MovieDraft) -> Problem[Database]:
    """Which of two or three films has more of something."""
    films = draft.films(draft.rng.choice((2, 3)))
    field = draft.rng.choice(list(BEST))
    values = [draft.about("details", film)[field] for film in films]
    *titles, last = (f'"{film.title}"' for film in films)
    names = f"{', '.join(titles)} or {last}"
    return draft.ask("better_of", draft.only(films, values).title, best=BEST[field][len(films) > 2], names=names)


def in_common(draft: MovieDraft) -> Problem[Database]:
    """Whether two films share a genre, country, company or director."""
    tool, noun, values = SHARED[draft.rng.choice(list(SHARED))]
    first = draft.film()
    if draft.rng.random() < 0.6:  # most pairs share nothing: look for one that does
        others = [film for film in draft.films(100) if film is not first and values(first) & values(film)]
        second = draft.require(others)[0]
    else:
        second = draft.film()
    draft.require(first is not second)
    for film in (first, second):
        draft.about(tool, film)
    return draft.ask("in_common", yes(bool(values(first) & values(second))), first=first, second=second, noun=noun)


def together(draft: MovieDraft) -> Problem[Database]:
    """The one film two people act in."""
    film = draft.film()
    first, second = (person for person, _ in draft.rng.sample(film.cast, 2))
    seen = [{each["title"] for each in draft.who("cast", person)} for person in (first, second)]
    draft.require(len(seen[0] & seen[1]) == 1)
    return draft.ask("together", film.title, first=first, second=second)


def older(draft: MovieDraft) -> Problem[Database]:
    """Which of two people is the older one, or which of the actors of three characters."""
    if draft.rng.random() < 0.5:
        people = [draft.actor(), draft.actor()]
        born = [draft.who("details", person)["birthday"] for person in people]
        first, second = (person.name for person in people)
        return draft.ask("older", draft.only(people, born, min).name, first=first, second=second)
    film = draft.film()
    roles = draft.rng.sample(draft.about("cast", film), 3)
    born = [draft.who("details", str(role["id"]))["birthday"] for role in roles]
    names = [role["character"] for role in roles]
    return draft.ask("oldest", draft.only(roles, born, min)["name"], names=names, film=film)


def best_of_maker(draft: MovieDraft) -> Problem[Database]:
    """The film by a film's director that has most of something."""
    film = draft.film()
    directed = draft.directed(draft.director(film))
    draft.require(2 <= len(directed) <= 5)
    field = draft.rng.choice(list(BEST))
    values = [draft.about("details", str(each["id"]))[field] for each in directed]
    answer = draft.only(directed, values)["title"]
    return draft.ask("best_of_maker", answer, film=film, best=BEST[field][len(directed) > 2])


def career(draft: MovieDraft) -> Problem[Database]:
    """The first film someone acted in, or what all of them earned."""
    someone = draft.actor()
    films = draft.who("cast", someone)
    draft.require(3 <= len(films) <= 5)
    details = [draft.about("details", str(film["id"])) for film in films]
    if draft.rng.random() < 0.5:
        return draft.ask("total_revenue", sum(detail["revenue"] for detail in details), 0.5, someone=someone)
    dates = [detail["release_date"] for detail in details]
    return draft.ask("first_film", draft.only(films, dates, min)["title"], someone=someone)


def two_makers(draft: MovieDraft) -> Problem[Database]:
    """The older of the directors of two films."""
    films = draft.films(2)
    makers = [draft.who("details", draft.director(film)) for film in films]
    born = [maker["birthday"] for maker in makers]
    first, second = (f'the director of "{film.title}"' for film in films)
    return draft.ask("older", draft.only(makers, born, min)["name"], first=first, second=second)
