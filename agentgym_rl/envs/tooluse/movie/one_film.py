"""Questions about one film or one person."""

from __future__ import annotations

from random import Random

from agentgym_rl.envs.tooluse.movie.draft import LIST, NAME, NUMBER, TITLE, WHEN, YES_NO, Drawn, Lookup, yes
from agentgym_rl.envs.tooluse.movie.words import COUNTRIES, GENRES, KEYWORDS, LANGUAGES

MONEY = "Answer with a number in dollars."
ROUNDED = 0.01
"""Tolerance of ratings."""

ACCOUNTS = {"imdb_id": "IMDb", "facebook_id": "Facebook", "instagram_id": "Instagram", "twitter_id": "Twitter"}


def fact(rng: Random) -> Drawn:
    """Date, money or rating of a film."""
    look = Lookup(rng)
    film = look.film()
    details = look.about("details", look.find(film))
    field, asked = rng.choice(
        [
            ("release_date", f'When was the film "{film.title}" released? {WHEN}'),
            ("budget", f'What was the budget of the film "{film.title}"? {MONEY}'),
            ("revenue", f'What was the revenue of the film "{film.title}"? {MONEY}'),
            ("vote_average", f'What is the rating of the film "{film.title}"? {NUMBER}'),
        ]
    )
    return look.ask(asked, details[field], ROUNDED)


def profit(rng: Random) -> Drawn:
    """What a film earned beyond its budget, or whether it did."""
    look = Lookup(rng)
    film = look.film()
    details = look.about("details", look.find(film))
    gain = details["revenue"] - details["budget"]
    if rng.random() < 0.5:
        return look.ask(f'Did the film "{film.title}" earn more than its budget? {YES_NO}', yes(gain > 0))
    if gain <= 0:
        return None
    return look.ask(f'By how much does the revenue of the film "{film.title}" exceed its budget? {MONEY}', gain, 0.5)


def genre(rng: Random) -> Drawn:
    """The genres of a film, or whether one is among them."""
    look = Lookup(rng)
    film = look.film()
    genres = [each["name"] for each in look.about("details", look.find(film))["genres"]]
    if rng.random() < 0.5:
        return look.ask(f'Which genres does the film "{film.title}" belong to? {LIST}', genres)
    one = rng.choice(genres) if rng.random() < 0.5 else rng.choice(list(GENRES))
    return look.ask(f'Is {one} among the genres of the film "{film.title}"? {YES_NO}', yes(one in genres))


def staff(rng: Random) -> Drawn:
    """Who did a job that one person did."""
    look = Lookup(rng)
    film = look.film()
    crew = look.about("crew", look.find(film))
    job = rng.choice([each["job"] for each in crew])
    names = [each["name"] for each in crew if each["job"] == job]
    if len(names) > 1:
        return look.ask(f'Who worked as {job} on the film "{film.title}"? Answer with a list of names.', names)
    return look.ask(f'Who worked as {job} on the film "{film.title}"? {NAME}', names[0])


def role(rng: Random) -> Drawn:
    """Who plays a character, or which one someone plays."""
    look = Lookup(rng)
    film = look.film()
    one = rng.choice(look.about("cast", look.find(film)))
    if rng.random() < 0.5:
        return look.ask(f'Who plays {one["character"]} in the film "{film.title}"? {NAME}', one["name"])
    goal = f'Which character does {one["name"]} play in the film "{film.title}"? Answer with the character\'s name.'
    return look.ask(goal, one["character"])


def origin(rng: Random) -> Drawn:
    """Who produced a film, and where."""
    look = Lookup(rng)
    film = look.film()
    topic = rng.choice(("companies", "countries"))
    found = look.about(f"production_{topic}", look.find(film))
    names = [each["name"] for each in found]
    if rng.random() < 0.5:
        return look.ask(f'Which are the production {topic} of the film "{film.title}"? {LIST}', names)
    others = COUNTRIES.values() if topic == "countries" else [name for _, name, _ in look.film().companies]
    one = rng.choice(names) if rng.random() < 0.5 else rng.choice(list(others))
    noun = "country" if topic == "countries" else "company"
    return look.ask(f'Is {one} a production {noun} of the film "{film.title}"? {YES_NO}', yes(one in names))


def keywords(rng: Random) -> Drawn:
    """The keywords of a film, how many, or whether one is among them."""
    look = Lookup(rng)
    film = look.film()
    words = look.about("keywords", look.find(film))
    if rng.random() < 0.5:
        return look.ask(f'Which keywords does the film "{film.title}" have? {LIST}', words)
    one = rng.choice(words) if rng.random() < 0.5 else rng.choice(KEYWORDS)
    return look.ask(f'Is "{one}" among the keywords of the film "{film.title}"? {YES_NO}', yes(one in words))


def abroad(rng: Random) -> Drawn:
    """The title of a film in another country, or its overview in another language."""
    look = Lookup(rng)
    film = look.film()
    number = look.find(film)
    if rng.random() < 0.5:
        one = rng.choice(look.about("alternative_titles", number)["titles"])
        where = COUNTRIES[one["iso_3166_1"]]
        return look.ask(f'What is the alternative title of the film "{film.title}" in {where}? {TITLE}', one["title"])
    one = rng.choice(look.about("translation", number)["translations"])
    if one["iso_3166_1"] == "US":
        return None
    language = LANGUAGES[one["iso_3166_1"]][2]
    goal = f'What is the {language} overview of the film "{film.title}"? Answer with its text.'
    return look.ask(goal, one["data"]["overview"])


def person(rng: Random) -> Drawn:
    """When and where someone was born, or an account of theirs."""
    look = Lookup(rng)
    someone = look.actor()
    number = look.find_person(someone)
    if rng.random() < 0.5:
        details = look.who("details", number)
        if rng.random() < 0.5:
            return look.ask(f"When was {someone.name} born? {WHEN}", details["birthday"])
        return look.ask(f"Where was {someone.name} born? Answer with the place of birth.", details["place_of_birth"])
    account = rng.choice(list(ACCOUNTS))
    value = look.who("external_ids", number)[account]
    if value is None:
        return None
    return look.ask(f"What is the {ACCOUNTS[account]} id of {someone.name}? Answer with the id.", value)


def films_of(rng: Random) -> Drawn:
    """How many films someone acted in, or which ones someone directed."""
    look = Lookup(rng)
    if rng.random() < 0.5:
        someone = look.actor()
        films = look.who("cast", look.find_person(someone))
        return look.ask(f"How many films did {someone.name} act in? {NUMBER}", len(films))
    someone = look.film().director
    jobs = look.who("crew", look.find_person(someone))
    directed = [each["title"] for each in jobs if each["job"] == "Director"]
    return look.ask(f"Which films did {someone.name} direct? Answer with a list of titles.", directed)
