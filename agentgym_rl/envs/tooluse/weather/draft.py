"""Drafts of questions about weather: a user, and the calls that look up points, days and measurements."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Any

from agentgym_rl.envs.tooluse.problem import Draft, Problem, answered
from agentgym_rl.envs.tooluse.weather.climate import CITIES, UNIQUE, City
from agentgym_rl.envs.tooluse.weather.tools import FUNCTIONS, SPAN, TEXTS, Visitor

FIRST_DAY = date(2016, 1, 1)
DAYS = 3_600
"""Number of possible dates of the user."""

ROUNDED = 0.06
"""Tolerance of values that are calculated from measurements with one decimal."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity to ask for: words, part of the tools' names, column of the result, unit, form of the answer."""

    words: str
    kind: str
    column: str
    unit: str = ""
    answer: str = "Answer with a number."
    gap: float = 0.5
    """Comparisons only use values that differ by more."""


_CELSIUS = ("degrees Celsius", "Answer with a number in degrees Celsius.")
HIGHEST = Measure("highest temperature", "temp", "temperature_2m_max", *_CELSIUS)
LOWEST = Measure("lowest temperature", "temp", "temperature_2m_min", *_CELSIUS)
AVERAGE = Measure("average temperature", "temp", "temperature_2m_mean", *_CELSIUS)
RAIN = Measure("rainfall", "rain", "rain_sum", "mm", "Answer with a number in millimetres.")
SNOW = Measure("snowfall", "snow", "snowfall_sum", "cm", "Answer with a number in centimetres.")
AIR = Measure("air quality index", "air_quality_index", "european_aqi_pm2_5", gap=1.5)

TEMPERATURES = (HIGHEST, LOWEST, AVERAGE)
WET = (RAIN, RAIN, SNOW)
MEASURES = (*TEMPERATURES, *WET, AIR)

_NAMED = {-2: "the day before yesterday", -1: "yesterday", 0: "today", 1: "tomorrow", 2: "the day after tomorrow"}


class WeatherDraft(Draft[Visitor]):
    """A user somewhere on some day, and the plan of calls so far."""

    texts = TEXTS
    functions = FUNCTIONS

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.today = FIRST_DAY + timedelta(rng.randrange(DAYS))
        self.home = rng.choice(UNIQUE)

    def start(self) -> Visitor:
        return Visitor(self.today, self.home.name)

    def city(self) -> City:
        """Any city but the user's."""
        return self.rng.choice([city for city in CITIES if city.name != self.home.name])

    def cities(self, number: int) -> list[City]:
        """Cities with unique names, the user's not among them."""
        return self.rng.sample([city for city in UNIQUE if city is not self.home], number)

    def day(self, measure: Measure) -> tuple[str, date]:
        """A day near the user's date, and its name. The air has no forecast."""
        days = min(self.rng.choice([*_NAMED, *_NAMED, *range(-14, 13)]), 0 if measure is AIR else 12)
        if days == -7 and self.rng.random() < 0.5:
            return "on this day last week", self.today - timedelta(7)
        named = f"{-days} days ago" if days < 0 else f"{days} days from today"
        return _NAMED.get(days, named), self.today + timedelta(days)

    def past_date(self) -> tuple[str, date]:
        """A day in the three years before the user's date, written out."""
        day = self.today - timedelta(self.rng.randint(2, 1000))
        return f"on {day}", day

    def period(self, past: bool) -> tuple[str, date, date]:
        """Several days before or after today."""
        days = self.rng.choice((3, 4, 5, 6, 7, 10, 14, 20))
        if past:
            return f"in the last {days} days before today", self.today - timedelta(days), self.today - timedelta(1)
        return f"in the {days} days after today", self.today + timedelta(1), self.today + timedelta(days)

    def past_period(self) -> tuple[str, date, date]:
        """Several days before any user's date, written out."""
        days = timedelta(self.rng.randint(3, SPAN.days))
        first = FIRST_DAY - timedelta(self.rng.randint(SPAN.days + 1, 3650))
        return f"from {first} to {first + days}", first, first + days

    def ask_city(self) -> City:
        """The user's city, asked for."""
        self.call("get_user_current_location")
        return self.home

    def here_or_in_a_city(self) -> tuple[str, City]:
        """The user's city, asked for, or another one; with ``here`` or ``in <city>``."""
        if self.rng.random() < 0.5:
            return "here", self.ask_city()
        city = self.city()
        return f"in {title(city)}", city

    def locate(self, city: City) -> dict[str, float]:
        """Latitude and longitude of a city, looked up."""
        found = self.call("get_latitude_longitude", name=city.name)["results"]
        place = next(place for place in found if place["country_code"] == city.country)
        return {"latitude": place["latitude"], "longitude": place["longitude"]}

    def read(self, measure: Measure, point: dict[str, float], first: date, last: date | None = None) -> list[Any]:
        """The values from the first to the last day, all of them past, all future, or today's only."""
        last = first if last is None else last
        if first == self.today:
            result = self.call(f"get_current_{measure.kind}", **point, current_date=str(first))
        else:
            past = last < self.today
            name = f"get_historical_{measure.kind}" if past else f"get_{measure.kind}_forecast"
            result = self.call(name, **point, start_date=str(first), end_date=str(last))
        values: list[Any] = result["daily"][measure.column]
        return values

    def distance(self, start: dict[str, float], end: dict[str, float]) -> float:
        """Kilometres between two points, looked up."""
        pair = {f"{name}{number}": point[name] for number, point in ((1, start), (2, end)) for name in point}
        return float(self.call("get_distance", **pair))

    def ask(
        self, template: str, answer: Any, tolerance: float = 0.0, /, timeless: bool = False, **words: Any
    ) -> Problem[Visitor]:
        """The question; ``timeless`` where neither the user's date nor place matters."""
        context = "" if timeless else f"{self.today}, {self.home.name}"
        return self.problem(self.goal(template, **words), answered(answer, tolerance), answer, context)


def title(city: City) -> str:
    """The name of a city, with its country where several cities have the name."""
    return city.name if city in UNIQUE else f"{city.name} ({city.country})"


def listed(cities: Sequence[City], word: str = "or") -> str:
    """``A, B or C``."""
    names = [city.name for city in cities]
    return f"{', '.join(names[:-1])} {word} {names[-1]}"


def clear(values: Sequence[float], gap: float) -> bool:
    """Whether the two greatest and the two smallest values are more than ``gap`` apart."""
    ordered = sorted(values)
    return ordered[1] - ordered[0] > gap and ordered[-1] - ordered[-2] > gap
