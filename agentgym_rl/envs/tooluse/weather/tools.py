"""The tools: AgentGym's names and arguments, and Open-Meteo's shapes of results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any

from agentgym_rl.envs.texts import read_texts
from agentgym_rl.envs.tooluse.tool import ECHO, Refused, ToolEnvTexts
from agentgym_rl.envs.tooluse.weather import climate

SPAN = timedelta(days=30)
"""Longest period of a call: from the first day to the last."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The user, who is the state of a session."""

    today: date
    city: str


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity by days: columns of a result, with unit and source. Like AgentGym, there is no forecast of the air."""

    columns: Mapping[str, tuple[str, Callable[[climate.Day], float]]]
    hour: str = ""
    """Suffix of each date."""


SERIES: Mapping[str, Series] = {
    "temp": Series(
        {
            "temperature_2m_max": ("°C", lambda day: day.high),
            "temperature_2m_min": ("°C", lambda day: day.low),
            "temperature_2m_mean": ("°C", lambda day: day.mean),
        }
    ),
    "rain": Series({"rain_sum": ("mm", lambda day: day.rain)}),
    "snow": Series({"snowfall_sum": ("cm", lambda day: day.snow)}),
    "air_quality_index": Series({"european_aqi_pm2_5": ("EAQI", lambda day: day.air)}, hour="T12:00"),
}

LEVELS = ((20, "good"), (40, "fair"), (60, "moderate"), (80, "poor"), (100, "very poor"))
"""Highest European AQI of each level."""


def level(air_quality_index: float) -> str:
    """The level of an air quality index."""
    return next((name for top, name in LEVELS if air_quality_index <= top), "extremely poor")


def daily(series: Series, latitude: float, longitude: float, first: date, last: date) -> dict[str, Any]:
    """A series from the first to the last day, in Open-Meteo's shape."""
    where = climate.place(latitude, longitude)
    dates = [first + timedelta(days) for days in range((last - first).days + 1)]
    days = [climate.weather(where, each) for each in dates]
    columns = {name: [source(day) for day in days] for name, (_, source) in series.columns.items()}
    units = {name: unit for name, (unit, _) in series.columns.items()}
    return {
        "latitude": where.latitude,
        "longitude": where.longitude,
        "daily_units": {"time": "iso8601", **units},
        "daily": {"time": [f"{each}{series.hour}" for each in dates], **columns},
    }


def _days(
    series: Series, past: bool, user: Visitor, latitude: float, longitude: float, start_date: str, end_date: str
) -> dict[str, Any]:
    first, last = _date(start_date), _date(end_date)
    if first > last:
        raise Refused("start_date must not be later than end_date")
    if last - first > SPAN:
        raise Refused(f"at most {SPAN.days} days may lie between start_date and end_date; ask for parts")
    if past and last >= user.today:
        raise Refused("start_date and end_date must be earlier than the current date")
    if not past and first <= user.today:
        raise Refused("start_date and end_date must be later than the current date")
    return daily(series, latitude, longitude, first, last)


def _current(series: Series, user: Visitor, latitude: float, longitude: float, current_date: str) -> dict[str, Any]:
    day = _date(current_date)
    if day != user.today:
        raise Refused(f"{day} is not the current date")
    return daily(series, latitude, longitude, day, day)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise Refused(f"{text[:ECHO]!r} is not a date YYYY-MM-DD") from error


def _locate(user: Visitor, name: str) -> dict[str, Any]:
    place = climate.BY_NAME.get(" ".join(name.casefold().split()))
    if place is None:
        raise Refused(f"no place is called {name[:ECHO]!r}")
    return {
        "results": [
            {"name": city.name, "latitude": city.latitude, "longitude": city.longitude, "country_code": city.country}
            for city in place
        ]
    }


def _elevation(user: Visitor, latitude: float, longitude: float) -> dict[str, Any]:
    return {"elevation": [float(climate.place(latitude, longitude).elevation)]}


def _distance(user: Visitor, latitude1: float, longitude1: float, latitude2: float, longitude2: float) -> float:
    return round(climate.distance(latitude1, longitude1, latitude2, longitude2), 3)


def _rows(result: Mapping[str, Any]) -> str:
    """A series without names and units of the columns."""
    columns = result["daily"]
    return "; ".join(" ".join(str(value) for value in row) for row in zip(*columns.values(), strict=True))


def _points(result: Mapping[str, Any]) -> str:
    return "; ".join(" ".join(str(value) for value in tuple(place.values())[1:]) for place in result["results"])


TEXTS = read_texts(__file__, ToolEnvTexts)

FUNCTIONS = TEXTS.functions(
    {
        "get_user_current_date": lambda user: str(user.today),
        "get_user_current_location": lambda user: user.city,
        **{f"get_historical_{kind}": partial(_days, series, True) for kind, series in SERIES.items()},
        **{f"get_current_{kind}": partial(_current, series) for kind, series in SERIES.items()},
        **{f"get_{kind}_forecast": partial(_days, SERIES[kind], False) for kind in ("temp", "rain", "snow")},
        "get_air_quality_level": lambda user, air_quality_index: level(air_quality_index),
        "get_latitude_longitude": _locate,
        "get_elevation": _elevation,
        "get_distance": _distance,
    },
    {
        **{name: _rows for name, text in TEXTS.tools.items() if text.returns.endswith("of each day")},
        "get_latitude_longitude": _points,
        "get_elevation": lambda result: str(result["elevation"][0]),
    },
)
