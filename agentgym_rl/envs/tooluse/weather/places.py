"""Questions about several places."""

from __future__ import annotations

from random import Random

from agentgym_rl.envs.tooluse.weather.draft import (
    AIR,
    DIFFERENCE,
    RAIN,
    TEMPERATURES,
    WHERE,
    YES_NO,
    Visit,
    clear,
    listed,
    title,
)
from agentgym_rl.envs.tooluse.weather.one_place import ROUNDED, Drawn
from agentgym_rl.envs.tooluse.weather.phrases import day, past_date

KILOMETRES = "Answer with a number in kilometres."
METRES = "Answer with a number in metres."


def apart(rng: Random) -> Drawn:
    """The distance between two cities, or from the user to one."""
    visit = Visit(rng)
    here = rng.random() < 0.5
    start = visit.ask_city() if here else visit.city()
    end = visit.city()
    if start is end:
        return None
    points = [visit.locate(city) for city in (start, end)]
    distance = visit.call("get_distance", **_pair(*points))
    goal = f"How far is it from {'here' if here else title(start)} to {title(end)}? {KILOMETRES}"
    return visit.problem(goal, round(distance), tolerance=1.0, timeless=not here)


def height_difference(rng: Random) -> Drawn:
    """How much higher one city lies than the other, or which of them."""
    visit = Visit(rng)
    cities = visit.cities(2)
    heights = [visit.call("get_elevation", **visit.locate(city))["elevation"][0] for city in cities]
    if not clear(heights, 20):
        return None
    first, second = (city.name for city in cities)
    if rng.random() < 0.5:
        goal = f"Which city lies higher above the sea, {first} or {second}? {WHERE}"
        return visit.problem(goal, cities[heights.index(max(heights))].name, timeless=True)
    goal = f"How many metres of height lie between {first} and {second}? {METRES}"
    return visit.problem(goal, round(abs(heights[0] - heights[1])), tolerance=1.0, timeless=True)


def nearest(rng: Random) -> Drawn:
    """Which of two or three cities is nearest to the user."""
    visit = Visit(rng)
    cities = visit.cities(rng.choice((2, 2, 3)))
    here = visit.locate(visit.ask_city())
    distances = [visit.call("get_distance", **_pair(here, visit.locate(city))) for city in cities]
    if not clear(distances, 20):
        return None
    goal = f"Which city is the {'nearer' if len(cities) == 2 else 'nearest'} to where I am,"
    goal += f" {listed([city.name for city in cities])}? {WHERE}"
    return visit.problem(goal, cities[distances.index(min(distances))].name)


def here_or_there(rng: Random) -> Drawn:
    """Whether another city has more of something than the user's, on a day near today."""
    visit = Visit(rng)
    measure = rng.choice((*TEMPERATURES, AIR, RAIN))
    when, date = day(rng, visit.today, measure)
    there = visit.city()
    visit.ask_date()
    (own,) = visit.read(measure, visit.locate(visit.ask_city()), date)
    (other,) = visit.read(measure, visit.locate(there), date)
    if not clear((own, other), measure.gap):
        return None
    verb = "is" if date >= visit.today else "was"
    if measure is RAIN or rng.random() < 0.5:
        goal = f"{verb.capitalize()} the {measure.words} in {title(there)} {when} higher than here? {YES_NO}"
        return visit.problem(goal, "Yes" if other > own else "No")
    goal = f"By how much {verb} the {measure.words} in {title(there)} {when} different from that here? {DIFFERENCE}"
    return visit.problem(goal, round(abs(own - other), 1), ROUNDED)


def most_of_several(rng: Random) -> Drawn:
    """Which of several cities had the most or least of something on a given date."""
    visit = Visit(rng)
    measure = rng.choice((*TEMPERATURES, AIR))
    when, date = past_date(rng, visit.today)
    cities = visit.cities(rng.choice((2, 3, 3)))
    values = [visit.read(measure, visit.locate(city), date)[0] for city in cities]
    if not clear(values, measure.gap):
        return None
    top = rng.random() < 0.5
    names = listed([city.name for city in cities])
    goal = f"Which city had the {'greatest' if top else 'smallest'} {measure.words} {when}, {names}? {WHERE}"
    return visit.problem(goal, cities[values.index((max if top else min)(values))].name)


def mean_of_several(rng: Random) -> Drawn:
    """The mean over several cities on a given date."""
    visit = Visit(rng)
    measure = rng.choice(TEMPERATURES)
    when, date = past_date(rng, visit.today)
    cities = visit.cities(rng.choice((2, 3)))
    values = [visit.read(measure, visit.locate(city), date)[0] for city in cities]
    names = listed([city.name for city in cities]).replace(" or ", " and ")
    goal = f"What was the mean of the {measure.words}s of {names} {when}? {measure.answer}"
    return visit.problem(goal, round(sum(values) / len(values), 2), ROUNDED)


def _pair(start: dict[str, float], end: dict[str, float]) -> dict[str, float]:
    return {f"{name}{number}": point[name] for number, point in ((1, start), (2, end)) for name in point}
