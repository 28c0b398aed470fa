"""A question in the making: the user, and the calls that lead to points, days and measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Any

from agentgym_rl.envs.tooluse.draft import Draft
from agentgym_rl.envs.tooluse.problem import Problem
from agentgym_rl.envs.tooluse.weather.cities import CITIES, UNIQUE, City
from agentgym_rl.envs.tooluse.weather.tools import BY_TOOL, Visitor

FIRST_DAY = date(2016, 1, 1)
DAYS = 3_600
"""The user's date is one of so many days from the first on."""

NUMBER = "Answer with a number."
DIFFERENCE = "Answer with a number that is not negative."
DEGREES = "Answer with a number in degrees Celsius."
YES_NO = "Answer Yes or No."
WHEN = "Answer with a date YYYY-MM-DD."
WHERE = "Answer with the name of the city."


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity one can ask for: words, the tool's part of the name, the column, and how to answer."""

    words: str
    kind: str
    column: str
    answer: str = NUMBER
    gap: float = 0.5
    """Two values must differ by more before one is asked which is greater."""


HIGHEST = Measure("highest temperature", "temp", "temperature_2m_max", DEGREES)
LOWEST = Measure("lowest temperature", "temp", "temperature_2m_min", DEGREES)
AVERAGE = Measure("average temperature", "temp", "temperature_2m_mean", DEGREES)
RAIN = Measure("rainfall", "rain", "rain_sum", "Answer with a number in millimetres.")
SNOW = Measure("snowfall", "snow", "snowfall_sum", "Answer with a number in centimetres.")
AIR = Measure("air quality index", "air_quality_index", "european_aqi_pm2_5", gap=1.5)

TEMPERATURES = (HIGHEST, LOWEST, AVERAGE)
WET = (RAIN, RAIN, SNOW)
MEASURES = (*TEMPERATURES, *WET, AIR)


class Visit:
    """A user somewhere on some day, and the plan of calls so far."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.today = FIRST_DAY + timedelta(rng.randrange(DAYS))
        self.home = rng.choice(UNIQUE)
        self.draft = Draft(BY_TOOL, lambda: Visitor(self.today, self.home.name))

    def call(self, name: str, /, **arguments: Any) -> Any:
        return self.draft.call(name, **arguments)

    def city(self) -> City:
        """Any city but the user's."""
        return self.rng.choice([city for city in CITIES if city.name != self.home.name])

    def cities(self, number: int) -> list[City]:
        """Cities whose names are no other's, the user's not among them."""
        return self.rng.sample([city for city in UNIQUE if city is not self.home], number)

    def ask_date(self) -> None:
        self.call("get_user_current_date")

    def ask_city(self) -> City:
        """The user's city, asked for."""
        self.call("get_user_current_location")
        return self.home

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

    def problem(self, goal: str, answer: Any, tolerance: float = 0.0, timeless: bool = False) -> Problem[Visitor]:
        """The question; ``timeless`` where neither the user's date nor place matters."""
        context = "" if timeless else f"{self.today}, {self.home.name}"
        return self.draft.ask(goal, answer, tolerance, context)


def title(city: City) -> str:
    """The name of a city, with its country where the name alone means several."""
    return city.name if city in UNIQUE else f"{city.name} ({city.country})"


def listed(names: Sequence[str]) -> str:
    """``A, B or C``."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def clear(values: Sequence[float], gap: float) -> bool:
    """Whether the two greatest and the two smallest values are more than ``gap`` apart."""
    ordered = sorted(values)
    return ordered[1] - ordered[0] > gap and ordered[-1] - ordered[-2] > gap
