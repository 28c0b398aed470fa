"""Questions about several places."""

from __future__ import annotations

from agentgym_rl.envs.tooluse.problem import Problem, yes
from agentgym_rl.envs.tooluse.weather.draft import (
    AIR,
    RAIN,
    ROUNDED,
    TEMPERATURES,
    WeatherDraft,
    clear,
    listed,
    title,
)
from agentgym_rl.envs.tooluse.weather.tools import Visitor


def apart(draft: WeatherDraft) -> Problem[Visitor] | None:
    """The distance between two cities, or from the user to one."""
    here = draft.rng.random() < 0.5
    start = draft.ask_city() if here else draft.city()
    end = draft.city()
    if start is end:
        return None
    kilometres = round(draft.distance(draft.locate(start), draft.locate(end)))
    return draft.ask(
        "apart", kilometres, 1.0, timeless=not here, start="here" if here else title(start), end=title(end)
    )


def height_difference(draft: WeatherDraft) -> Problem[Visitor] | None:
    """How much higher one city lies than the other, or which of them."""
    cities = draft.cities(2)
    heights = [draft.call("get_elevation", **draft.locate(city))["elevation"][0] for city in cities]
    if not clear(heights, 20):
        return None
    first, second = (city.name for city in cities)
    if draft.rng.random() < 0.5:
        highest = cities[heights.index(max(heights))].name
        return draft.ask("higher_city", highest, timeless=True, first=first, second=second)
    difference = round(abs(heights[0] - heights[1]))
    return draft.ask("height_difference", difference, 1.0, timeless=True, first=first, second=second)


def nearest(draft: WeatherDraft) -> Problem[Visitor] | None:
    """Which of two or three cities is nearest to the user."""
    cities = draft.cities(draft.rng.choice((2, 2, 3)))
    here = draft.locate(draft.ask_city())
    distances = [draft.distance(here, draft.locate(city)) for city in cities]
    if not clear(distances, 20):
        return None
    answer, word = cities[distances.index(min(distances))].name, "nearer" if len(cities) == 2 else "nearest"
    return draft.ask("nearest", answer, word=word, names=listed(cities))


def here_or_there(draft: WeatherDraft) -> Problem[Visitor] | None:
    """Whether another city has more of something than the user's, on a day near today."""
    measure = draft.rng.choice((*TEMPERATURES, AIR, RAIN))
    when, date = draft.day(measure)
    there = draft.city()
    draft.ask_date()
    (own,) = draft.read(measure, draft.locate(draft.ask_city()), date)
    (other,) = draft.read(measure, draft.locate(there), date)
    if not clear((own, other), measure.gap):
        return None
    verb, city = "is" if date >= draft.today else "was", title(there)
    if measure is RAIN or draft.rng.random() < 0.5:
        return draft.ask(
            "higher_there", yes(other > own), verb=verb.capitalize(), measure=measure, city=city, when=when
        )
    difference = round(abs(own - other), 1)
    return draft.ask("difference_there", difference, ROUNDED, verb=verb, measure=measure, city=city, when=when)


def most_of_several(draft: WeatherDraft) -> Problem[Visitor] | None:
    """Which of several cities had the most or least of something on a given date."""
    measure = draft.rng.choice((*TEMPERATURES, AIR))
    when, date = draft.past_date()
    cities = draft.cities(draft.rng.choice((2, 3, 3)))
    values = [draft.read(measure, draft.locate(city), date)[0] for city in cities]
    if not clear(values, measure.gap):
        return None
    word, pick = ("greatest", max) if draft.rng.random() < 0.5 else ("smallest", min)
    answer = cities[values.index(pick(values))].name
    return draft.ask("most_of_several", answer, word=word, measure=measure, when=when, names=listed(cities))


def mean_of_several(draft: WeatherDraft) -> Problem[Visitor] | None:
    """The mean over several cities on a given date."""
    measure = draft.rng.choice(TEMPERATURES)
    when, date = draft.past_date()
    cities = draft.cities(draft.rng.choice((2, 3)))
    values = [draft.read(measure, draft.locate(city), date)[0] for city in cities]
    mean = round(sum(values) / len(values), 2)
    return draft.ask("mean_of_several", mean, ROUNDED, measure=measure, names=listed(cities, "and"), when=when)
