"""Questions about one place."""

from __future__ import annotations

from random import Random

from agentgym_rl.envs.tooluse.problem import Problem
from agentgym_rl.envs.tooluse.weather.draft import (
    AIR,
    DIFFERENCE,
    MEASURES,
    NUMBER,
    RAIN,
    SNOW,
    TEMPERATURES,
    WET,
    WHEN,
    YES_NO,
    Visit,
    clear,
    title,
)
from agentgym_rl.envs.tooluse.weather.phrases import day, past_date, past_period, period
from agentgym_rl.envs.tooluse.weather.tools import Visitor

Drawn = Problem[Visitor] | None

ROUNDED = 0.06
"""Tolerance of values with one decimal that one may compute with."""


def on_a_date(rng: Random) -> Drawn:
    """A measurement on a past date that is given."""
    visit = Visit(rng)
    measure, city = rng.choice(MEASURES), visit.city()
    when, date = past_date(rng, visit.today)
    (value,) = visit.read(measure, visit.locate(city), date)
    if not value:
        return None
    return visit.problem(f"What was the {measure.words} in {title(city)} {when}? {measure.answer}", value, ROUNDED)


def total(rng: Random) -> Drawn:
    """Rain or snow over dates that are given."""
    visit = Visit(rng)
    measure, city = rng.choice(WET), visit.city()
    when, first, last = past_period(rng)
    values = visit.read(measure, visit.locate(city), first, last)
    if not any(values):
        return None
    goal = f"What was the total {measure.words} in {title(city)} {when}, both included? {measure.answer}"
    return visit.problem(goal, round(sum(values), 1), ROUNDED, timeless=True)


def extreme_date(rng: Random) -> Drawn:
    """The hottest, coldest, wettest day, or the one with the best or worst air, of dates that are given."""
    visit = Visit(rng)
    city = visit.city()
    measure = rng.choice((*TEMPERATURES, RAIN, AIR))
    when, first, last = past_period(rng)
    values = visit.read(measure, visit.locate(city), first, last)
    top = measure is RAIN or rng.random() < 0.5
    extreme = (max if top else min)(values)
    if values.count(extreme) > 1:
        return None
    side = "maximal" if top else "minimal"
    goal = f"On which day {when}, both included, was the {measure.words} in {title(city)} {side}? {WHEN}"
    answer = str(first.fromordinal(first.toordinal() + values.index(extreme)))
    return visit.problem(goal, answer, timeless=True)


def days_of_kind(rng: Random) -> Drawn:
    """How many of the given dates had rain, snow, or a temperature above a bound."""
    visit = Visit(rng)
    city = visit.city()
    measure = rng.choice((RAIN, RAIN, SNOW, *TEMPERATURES))
    when, first, last = past_period(rng)
    values = visit.read(measure, visit.locate(city), first, last)
    bound = float(round(sorted(values)[len(values) // 2])) if measure in TEMPERATURES else 0.0
    count = sum(value > bound for value in values)
    if not count:
        return None
    unit = "degrees Celsius" if measure in TEMPERATURES else "mm" if measure is RAIN else "cm"
    goal = f"On how many days {when}, both included, was the {measure.words} in {title(city)} above {bound:g} {unit}?"
    return visit.problem(f"{goal} {NUMBER}", count, timeless=True)


def near_today(rng: Random) -> Drawn:
    """A measurement some days from today, in a city that is named or the user's."""
    visit = Visit(rng)
    measure = rng.choice(MEASURES)
    when, date = day(rng, visit.today, measure)
    visit.ask_date()
    here = rng.random() < 0.5
    city = visit.ask_city() if here else visit.city()
    (value,) = visit.read(measure, visit.locate(city), date)
    if not value and rng.random() < 0.9:
        return None
    tense = "is" if date >= visit.today else "was"
    place = "here" if here else f"in {title(city)}"
    return visit.problem(f"What {tense} the {measure.words} {place} {when}? {measure.answer}", value, ROUNDED)


def air_level(rng: Random) -> Drawn:
    """The level of the air, not its index."""
    visit = Visit(rng)
    city = visit.city()
    when, date = day(rng, visit.today, AIR)
    visit.ask_date()
    (index,) = visit.read(AIR, visit.locate(city), date)
    answer = visit.call("get_air_quality_level", air_quality_index=index)
    tense = "is" if date == visit.today else "was"
    goal = f"What {tense} the air quality level in {title(city)} {when}? Answer with the name of the level."
    return visit.problem(goal, answer)


def near_total(rng: Random) -> Drawn:
    """Rain or snow over some days before or after today."""
    visit = Visit(rng)
    measure, past = rng.choice(WET), rng.random() < 0.5
    when, first, last = period(rng, visit.today, past)
    visit.ask_date()
    here = rng.random() < 0.5
    city = visit.ask_city() if here else visit.city()
    values = visit.read(measure, visit.locate(city), first, last)
    if not any(values):
        return None
    place = "here" if here else f"in {title(city)}"
    verb = "was" if past else "will be"
    goal = f"What {verb} the total {measure.words} {place} {when}? {measure.answer}"
    return visit.problem(goal, round(sum(values), 1), ROUNDED)


def near_days(rng: Random) -> Drawn:
    """How many of some days before or after today have rain or snow."""
    visit = Visit(rng)
    measure, past = rng.choice(WET), rng.random() < 0.5
    when, first, last = period(rng, visit.today, past)
    visit.ask_date()
    city = visit.ask_city()
    values = visit.read(measure, visit.locate(city), first, last)
    count = sum(value > 0 for value in values)
    if not count:
        return None
    verb = "had" if past else "will have"
    return visit.problem(f"How many days {verb} {measure.words} here {when}? {NUMBER}", count)


def against_today(rng: Random) -> Drawn:
    """Whether today has more than another day, or how much it differs from it."""
    visit = Visit(rng)
    measure = rng.choice((*TEMPERATURES, AIR))
    when, date = day(rng, visit.today, measure)
    if date == visit.today:
        return None
    visit.ask_date()
    point = visit.locate(visit.ask_city())
    (today,) = visit.read(measure, point, visit.today)
    (other,) = visit.read(measure, point, date)
    if not clear((today, other), measure.gap):
        return None
    verb = "is" if date > visit.today else "was"
    if rng.random() < 0.5:
        goal = f"Is the {measure.words} here today higher than it {verb} {when}? {YES_NO}"
        return visit.problem(goal, "Yes" if today > other else "No")
    goal = f"By how much does the {measure.words} here today differ from what it {verb} {when}? {DIFFERENCE}"
    return visit.problem(goal, round(abs(today - other), 1), ROUNDED)


def before_and_after(rng: Random) -> Drawn:
    """Whether more rain fell before today than will fall after it."""
    visit = Visit(rng)
    measure = rng.choice(WET)
    before, first, last = period(rng, visit.today, past=True)
    visit.ask_date()
    point = visit.locate(visit.ask_city())
    past = sum(visit.read(measure, point, first, last))
    days = (last - first).days
    start = visit.today.fromordinal(visit.today.toordinal() + 1)
    future = sum(visit.read(measure, point, start, start.fromordinal(start.toordinal() + days)))
    if not clear((past, future), measure.gap):
        return None
    goal = f"Was there more {measure.words} here {before} than there will be in the {days + 1} days after it? {YES_NO}"
    return visit.problem(goal, "Yes" if past > future else "No")


def dry_and_mild(rng: Random) -> Drawn:
    """How many days meet two conditions."""
    visit = Visit(rng)
    past = rng.random() < 0.5
    when, first, last = period(rng, visit.today, past)
    visit.ask_date()
    point = visit.locate(visit.ask_city())
    rain = visit.read(RAIN, point, first, last)
    warmth = visit.read(TEMPERATURES[0], point, first, last)
    bound = round(sorted(warmth)[len(warmth) // 3])
    count = sum(not wet and high > bound for wet, high in zip(rain, warmth, strict=True))
    verb = "had" if past else "will have"
    goal = f"How many days {verb} no rain and a highest temperature above {bound} degrees Celsius here {when}?"
    return visit.problem(f"{goal} {NUMBER}", count)
