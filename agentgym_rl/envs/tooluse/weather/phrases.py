"""Days and periods as people name them."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

from agentgym_rl.envs.tooluse.weather.draft import AIR, FIRST_DAY, Measure
from agentgym_rl.envs.tooluse.weather.tools import SPAN

_NAMED = {-2: "the day before yesterday", -1: "yesterday", 0: "today", 1: "tomorrow", 2: "the day after tomorrow"}


def day(rng: Random, today: date, measure: Measure) -> tuple[str, date]:
    """A day near the user's date, and its name. The air has no forecast."""
    last = 0 if measure is AIR else 12
    days = rng.choice([*_NAMED, *_NAMED, *range(-14, 13)])
    days = min(days, last)
    if days == -7 and rng.random() < 0.5:
        return "on this day last week", today - timedelta(7)
    named = f"{-days} days ago" if days < 0 else f"{days} days from today"
    return _NAMED.get(days, named), today + timedelta(days)


def past_date(rng: Random, today: date) -> tuple[str, date]:
    """A day in the three years before the user's date, written out."""
    found = today - timedelta(rng.randint(2, 1000))
    return f"on {found}", found


def period(rng: Random, today: date, past: bool) -> tuple[str, date, date]:
    """Several days without today."""
    days = rng.choice((3, 4, 5, 6, 7, 10, 14, 20))
    if past:
        return f"in the last {days} days before today", today - timedelta(days), today - timedelta(1)
    return f"in the {days} days after today", today + timedelta(1), today + timedelta(days)


def past_period(rng: Random) -> tuple[str, date, date]:
    """Several days before anyone's date, written out."""
    days = timedelta(rng.randint(3, SPAN.days))
    first = FIRST_DAY - timedelta(rng.randint(SPAN.days + 1, 3650))
    return f"from {first} to {first + days}", first, first + days
