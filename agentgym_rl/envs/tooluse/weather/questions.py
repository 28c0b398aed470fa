"""Questions about one place, then about several."""

from datetime import timedelta

from agentgym_rl.envs.tooluse.problem import Problem, yes
from agentgym_rl.envs.tooluse.weather.draft import (
    AIR,
    MEASURES,
    RAIN,
    ROUNDED,
    SNOW,
    TEMPERATURES,
    WET,
    WeatherDraft,
    clear,
    listed,
    title,
)
from agentgym_rl.envs.tooluse.weather.tools import Visitor


def on_a_date(draft: WeatherDraft) -> Problem[Visitor]:
    """A measurement on a past date that is given."""
    measure, city = draft.rng.choice(MEASURES), draft.city()
    when, date = draft.past_date()
    (value,) = draft.read(measure, draft.locate(city), date)
    return draft.ask("on_a_date", draft.require(value), ROUNDED, measure=measure, city=title(city), when=when)


def total(draft: WeatherDraft) -> Problem[Visitor]:
    """Rain or snow over dates that are given."""
    measure, city = draft.rng.choice(WET), draft.city()
    when, first, last = draft.past_period()
    values = draft.read(measure, draft.locate(city), first, last)
    draft.require(any(values))
    answer = round(sum(values), 1)
    return draft.ask("total", answer, ROUNDED, timeless=True, measure=measure, city=title(city), when=when)


def extreme_date(draft: WeatherDraft) -> Problem[Visitor]:
    """The hottest, coldest, wettest day, or the one with the best or worst air, of dates that are given."""
    city = draft.city()
    measure = draft.rng.choice((*TEMPERATURES, RAIN, AIR))
    when, first, last = draft.past_period()
    values = draft.read(measure, draft.locate(city), first, last)
    top = measure is RAIN or draft.rng.random() < 0.5
    day = first + timedelta(draft.only(range(len(values)), values, max if top else min))
    side = "maximal" if top else "minimal"
    return draft.ask("extreme_date", str(day), timeless=True, measure=measure, city=title(city), when=when, side=side)


def days_of_kind(draft: WeatherDraft) -> Problem[Visitor]:
    """How many of the given dates had rain, snow, or a temperature above a bound."""
    city = draft.city()
    measure = draft.rng.choice((RAIN, RAIN, SNOW, *TEMPERATURES))
    when, first, last = draft.past_period()
    values = draft.read(measure, draft.locate(city), first, last)
    bound = float(round(sorted(values)[len(values) // 2])) if measure in TEMPERATURES else 0.0
    count = draft.require(sum(value > bound for value in values))
    return draft.ask("days_of_kind", count, timeless=True, measure=measure, city=title(city), when=when, bound=bound)


def near_today(draft: WeatherDraft) -> Problem[Visitor]:
    """A measurement some days from today, in a city that is named or the user's."""
    measure = draft.rng.choice(MEASURES)
    when, date = draft.day(measure)
    draft.call("get_user_current_date")
    place, city = draft.here_or_in_a_city()
    (value,) = draft.read(measure, draft.locate(city), date)
    draft.require(value or draft.rng.random() >= 0.9)
    verb = "is" if date >= draft.today else "was"
    return draft.ask("near_today", value, ROUNDED, verb=verb, measure=measure, place=place, when=when)


def air_level(draft: WeatherDraft) -> Problem[Visitor]:
    """The level of the air, not its index."""
    city = draft.city()
    when, date = draft.day(AIR)
    draft.call("get_user_current_date")
    (index,) = draft.read(AIR, draft.locate(city), date)
    answer = draft.call("get_air_quality_level", air_quality_index=index)
    return draft.ask("air_level", answer, verb="is" if date == draft.today else "was", city=title(city), when=when)


def near_total(draft: WeatherDraft) -> Problem[Visitor]:
    """Rain or snow over some days before or after today."""
    measure, past = draft.rng.choice(WET), draft.rng.random() < 0.5
    when, first, last = draft.period(past)
    draft.call("get_user_current_date")
    place, city = draft.here_or_in_a_city()
    values = draft.read(measure, draft.locate(city), first, last)
    draft.require(any(values))
    verb = "was" if past else "will be"
    return draft.ask("near_total", round(sum(values), 1), ROUNDED, verb=verb, measure=measure, place=place, when=when)


def near_days(draft: WeatherDraft) -> Problem[Visitor]:
    """How many of some days before or after today have rain or snow."""
    measure, past = draft.rng.choice(WET), draft.rng.random() < 0.5
    when, first, last = draft.period(past)
    draft.call("get_user_current_date")
    values = draft.read(measure, draft.locate(draft.ask_city()), first, last)
    count = draft.require(sum(value > 0 for value in values))
    return draft.ask("near_days", count, verb="had" if past else "will have", measure=measure, when=when)


def against_today(draft: WeatherDraft) -> Problem[Visitor]:
    """Whether today has more than another day, or how much it differs from it."""
    measure = draft.rng.choice((*TEMPERATURES, AIR))
    when, date = draft.day(measure)
    draft.require(date != draft.today)
    draft.call("get_user_current_date")
    point = draft.locate(draft.ask_city())
    (today,) = draft.read(measure, point, draft.today)
    (other,) = draft.read(measure, point, date)
    draft.require(clear((today, other), measure.gap))
    verb = "is" if date > draft.today else "was"
    if draft.rng.random() < 0.5:
        return draft.ask("higher_today", yes(today > other), measure=measure, verb=verb, when=when)
    difference = round(abs(today - other), 1)
    return draft.ask("difference_today", difference, ROUNDED, measure=measure, verb=verb, when=when)


def before_and_after(draft: WeatherDraft) -> Problem[Visitor]:
    """Whether more rain fell before today than will fall after it."""
    measure = draft.rng.choice(WET)
    when, first, last = draft.period(past=True)
    draft.call("get_user_current_date")
    point = draft.locate(draft.ask_city())
    past = sum(draft.read(measure, point, first, last))
    days = (last - first).days + 1
    future = sum(draft.read(measure, point, draft.today + timedelta(1), draft.today + timedelta(days)))
    draft.require(clear((past, future), measure.gap))
    return draft.ask("before_and_after", yes(past > future), measure=measure, when=when, days=days)


def dry_and_mild(draft: WeatherDraft) -> Problem[Visitor]:
    """How many days meet two conditions."""
    past = draft.rng.random() < 0.5
    when, first, last = draft.period(past)
    draft.call("get_user_current_date")
    point = draft.locate(draft.ask_city())
    rain = draft.read(RAIN, point, first, last)
    warmth = draft.read(TEMPERATURES[0], point, first, last)
    bound = round(sorted(warmth)[len(warmth) // 3])
    count = sum(not wet and high > bound for wet, high in zip(rain, warmth, strict=True))
    return draft.ask("dry_and_mild", count, verb="had" if past else "will have", bound=bound, when=when)


def apart(draft: WeatherDraft) -> Problem[Visitor]:
    """The distance between two cities, or from the user to one."""
    here = draft.rng.random() < 0.5
    start = draft.ask_city() if here else draft.city()
    end = draft.city()
    draft.require(start is not end)
    kilometres = round(draft.distance(draft.locate(start), draft.locate(end)))
    return draft.ask(
        "apart", kilometres, 1.0, timeless=not here, start="here" if here else title(start), end=title(end)
    )


def height_difference(draft: WeatherDraft) -> Problem[Visitor]:
    """How much higher one city lies than the other, or which of them."""
    cities = draft.cities(2)
    heights = [draft.call("get_elevation", **draft.locate(city))["elevation"][0] for city in cities]
    draft.require(clear(heights, 20))
    first, second = (city.name for city in cities)
    if draft.rng.random() < 0.5:
        return draft.ask("higher_city", draft.only(cities, heights).name, timeless=True, first=first, second=second)
    difference = round(abs(heights[0] - heights[1]))
    return draft.ask("height_difference", difference, 1.0, timeless=True, first=first, second=second)


def nearest(draft: WeatherDraft) -> Problem[Visitor]:
    """Which of two or three cities is nearest to the user."""
    cities = draft.cities(draft.rng.choice((2, 2, 3)))
    here = draft.locate(draft.ask_city())
    distances = [draft.distance(here, draft.locate(city)) for city in cities]
    draft.require(clear(distances, 20))
    answer, word = draft.only(cities, distances, min).name, "nearer" if len(cities) == 2 else "nearest"
    return draft.ask("nearest", answer, word=word, names=listed(cities))


def here_or_there(draft: WeatherDraft) -> Problem[Visitor]:
    """Whether another city has more of something than the user's, on a day near today."""
    measure = draft.rng.choice((*TEMPERATURES, AIR, RAIN))
    when, date = draft.day(measure)
    there = draft.city()
    draft.call("get_user_current_date")
    (here,) = draft.read(measure, draft.locate(draft.ask_city()), date)
    (other,) = draft.read(measure, draft.locate(there), date)
    draft.require(clear((here, other), measure.gap))
    verb, city = "is" if date >= draft.today else "was", title(there)
    if measure is RAIN or draft.rng.random() < 0.5:
        return draft.ask(
            "higher_there", yes(other > here), verb=verb.capitalize(), measure=measure, city=city, when=when
        )
    difference = round(abs(here - other), 1)
    return draft.ask("difference_there", difference, ROUNDED, verb=verb, measure=measure, city=city, when=when)


def most_of_several(draft: WeatherDraft) -> Problem[Visitor]:
    """Which of several cities had the most or least of something on a given date."""
    measure = draft.rng.choice((*TEMPERATURES, AIR))
    when, date = draft.past_date()
    cities = draft.cities(draft.rng.choice((2, 3, 3)))
    values = [draft.read(measure, draft.locate(city), date)[0] for city in cities]
    draft.require(clear(values, measure.gap))
    word, pick = ("greatest", max) if draft.rng.random() < 0.5 else ("smallest", min)
    answer = draft.only(cities, values, pick).name
    return draft.ask("most_of_several", answer, word=word, measure=measure, when=when, names=listed(cities))


def mean_of_several(draft: WeatherDraft) -> Problem[Visitor]:
    """The mean over several cities on a given date."""
    measure = draft.rng.choice(TEMPERATURES)
    when, date = draft.past_date()
    cities = draft.cities(draft.rng.choice((2, 3)))
    values = [draft.read(measure, draft.locate(city), date)[0] for city in cities]
    mean = round(sum(values) / len(values), 2)
    return draft.ask("mean_of_several", mean, ROUNDED, measure=measure, names=listed(cities, "and"), when=when)
