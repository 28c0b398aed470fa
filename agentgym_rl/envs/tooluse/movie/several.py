"""Questions that lead over several films or people."""

from __future__ import annotations

from random import Random
from typing import Any

from agentgym_rl.envs.tooluse.movie.draft import NAME, NUMBER, TITLE, WHEN, YES_NO, Drawn, Lookup, yes
from agentgym_rl.envs.tooluse.movie.one_film import ACCOUNTS, MONEY

BEST = {
    "vote_average": ("has the higher rating", "has the highest rating"),
    "revenue": ("had the higher revenue", "had the highest revenue"),
    "budget": ("had the higher budget", "had the highest budget"),
    "release_date": ("was released later", "was released last"),
}
"""What the greatest value of a field means, of two films and of more."""


def of_the_maker(rng: Random) -> Drawn:
    """Birth of a film's director, or of who plays a character."""
    look = Lookup(rng)
    film = look.film()
    number = look.find(film)
    if rng.random() < 0.5:
        who, someone = f'the director of the film "{film.title}"', look.director(number)
    else:
        character = rng.choice(film.cast)[1]
        who, someone = f'the one who plays {character} in the film "{film.title}"', look.player(number, character)
    if rng.random() < 0.5:
        account = rng.choice(list(ACCOUNTS))
        value = look.who("external_ids", someone)[account]
        if value is None:
            return None
        return look.ask(f"What is the {ACCOUNTS[account]} id of {who}? Answer with the id.", value)
    details = look.who("details", someone)
    if rng.random() < 0.5:
        return look.ask(f"When was {who} born? {WHEN}", details["birthday"])
    return look.ask(f"Where was {who} born? Answer with the place of birth.", details["place_of_birth"])


def other_role(rng: Random) -> Drawn:
    """Whom the player of a character plays in another film."""
    look = Lookup(rng)
    film = look.film()
    character = rng.choice(film.cast)[1]
    roles = look.who("cast", look.player(look.find(film), character))
    others = [each for each in roles if each["title"] != film.title]
    if not others:
        return None
    other = rng.choice(others)
    goal = f'Which character does the one who plays {character} in "{film.title}" play in "{other["title"]}"?'
    return look.ask(f"{goal} Answer with the character's name.", other["character"])


def directed_by_maker(rng: Random) -> Drawn:
    """How many films a film's director directed."""
    look = Lookup(rng)
    film = look.film()
    jobs = look.who("crew", look.director(look.find(film)))
    count = sum(each["job"] == "Director" for each in jobs)
    goal = f'How many films did the director of "{film.title}" direct, that one included? {NUMBER}'
    return look.ask(goal, count)


def film_of_role(rng: Random) -> Drawn:
    """About the film in which someone plays a character."""
    look = Lookup(rng)
    someone = look.actor()
    one = rng.choice(look.who("cast", look.find_person(someone)))
    details = look.about("details", str(one["id"]))
    film = f"the film in which {someone.name} plays {one['character']}"
    if rng.random() < 0.5:
        return look.ask(f"When was {film} released? {WHEN}", details["release_date"])
    return look.ask(f"What was the revenue of {film}? {MONEY}", details["revenue"])


def better_of(rng: Random) -> Drawn:
    """Which of two or three films has more of something."""
    look = Lookup(rng)
    films = look.films(rng.choice((2, 3)))
    field = rng.choice(list(BEST))
    values = [look.about("details", look.find(film))[field] for film in films]
    if len(set(values)) < len(values):
        return None
    names = [f'"{film.title}"' for film in films]
    asked = BEST[field][len(films) > 2]
    goal = f"Which film {asked}, {', '.join(names[:-1])} or {names[-1]}? {TITLE}"
    return look.ask(goal, films[values.index(max(values))].title)


def in_common(rng: Random) -> Drawn:
    """Whether two films share a genre, country, company or director."""
    look = Lookup(rng)
    topic = rng.choice(("genre", "country", "company", "director"))
    first = look.film()
    if rng.random() < 0.6:  # most pairs share nothing: look for one that does
        others = [film for film in look.films(100) if film is not first and _shared(topic, first, film)]
        if not others:
            return None
        second = others[0]
    else:
        second = look.film()
    if first is second:
        return None
    for film in (first, second):
        number = look.find(film)
        look.about(
            {
                "genre": "details",
                "country": "production_countries",
                "company": "production_companies",
                "director": "crew",
            }[topic],
            number,
        )
    noun = {"country": "production country", "company": "production company"}.get(topic, topic)
    goal = f'Do the films "{first.title}" and "{second.title}" have a {noun} in common? {YES_NO}'
    return look.ask(goal, yes(_shared(topic, first, second)))


def _shared(topic: str, first: Any, second: Any) -> bool:
    match topic:
        case "genre":
            return bool({*first.genres} & {*second.genres})
        case "country":
            return bool({*first.countries} & {*second.countries})
        case "company":
            return bool({id for id, *_ in first.companies} & {id for id, *_ in second.companies})
    return bool(first.director.id == second.director.id)


def together(rng: Random) -> Drawn:
    """The one film two people act in."""
    look = Lookup(rng)
    film = look.film()
    people = [person for person, _ in rng.sample(film.cast, 2)]
    seen = [{each["title"] for each in look.who("cast", look.find_person(person))} for person in people]
    common = seen[0] & seen[1]
    if len(common) > 1:
        return None
    return look.ask(f"In which film do both {people[0].name} and {people[1].name} act? {TITLE}", film.title)


def older(rng: Random) -> Drawn:
    """Which of two people is the older one, or which of the players of three characters."""
    look = Lookup(rng)
    if rng.random() < 0.5:
        people = [look.actor(), look.actor()]
        born = [look.who("details", look.find_person(person))["birthday"] for person in people]
        if len({*born}) < 2:
            return None
        goal = f"Who is older, {people[0].name} or {people[1].name}? {NAME}"
        return look.ask(goal, people[born.index(min(born))].name)
    film = look.film()
    roles = rng.sample(look.about("cast", look.find(film)), 3)
    born = [look.who("details", str(each["id"]))["birthday"] for each in roles]
    if len({*born}) < 3:
        return None
    names = [each["character"] for each in roles]
    goal = (
        f'Who is the oldest of those who play {names[0]}, {names[1]} and {names[2]} in the film "{film.title}"? {NAME}'
    )
    return look.ask(goal, roles[born.index(min(born))]["name"])


def best_of_maker(rng: Random) -> Drawn:
    """Which film of a film's director has most of something."""
    look = Lookup(rng)
    film = look.film()
    jobs = look.who("crew", look.director(look.find(film)))
    directed = [each for each in jobs if each["job"] == "Director"]
    if not 2 <= len(directed) <= 5:
        return None
    field = rng.choice(list(BEST))
    values = [look.about("details", str(each["id"]))[field] for each in directed]
    if len(set(values)) < len(values):
        return None
    asked = BEST[field][len(directed) > 2]
    goal = f'Which of the films by the director of "{film.title}", that one included, {asked}? {TITLE}'
    return look.ask(goal, directed[values.index(max(values))]["title"])


def career(rng: Random) -> Drawn:
    """The first film someone acted in, or what all of them earned."""
    look = Lookup(rng)
    someone = look.actor()
    films = look.who("cast", look.find_person(someone))
    if not 3 <= len(films) <= 5:
        return None
    details = [look.about("details", str(each["id"])) for each in films]
    if rng.random() < 0.5:
        total = sum(each["revenue"] for each in details)
        return look.ask(f"What is the total revenue of all films {someone.name} acted in? {MONEY}", total, 0.5)
    dates = [each["release_date"] for each in details]
    if len(set(dates)) < len(dates):
        return None
    goal = f"Which of the films {someone.name} acted in was released first? {TITLE}"
    return look.ask(goal, films[dates.index(min(dates))]["title"])


def two_makers(rng: Random) -> Drawn:
    """Whose director is older, of two films."""
    look = Lookup(rng)
    films = look.films(2)
    makers = [look.who("details", look.director(look.find(film))) for film in films]
    born = [each["birthday"] for each in makers]
    if len({*born}) < 2:
        return None
    goal = f'Who is older, the director of "{films[0].title}" or the director of "{films[1].title}"? {NAME}'
    return look.ask(goal, makers[born.index(min(born))]["name"])
