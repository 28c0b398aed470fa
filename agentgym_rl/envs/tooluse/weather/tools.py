"""The tools of the world: AgentGym's names, arguments and shapes of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any

from agentgym_rl.envs.tools import Schema, Tool
from agentgym_rl.envs.tooluse.tool import ECHO, Function, Refused
from agentgym_rl.envs.tooluse.weather import climate
from agentgym_rl.envs.tooluse.weather.cities import BY_NAME

SPAN = timedelta(days=30)
"""Longest period of a call: from the first day to the last."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The user: what the world's state is."""

    today: date
    city: str


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity by days: the columns of a result, with unit and source."""

    noun: str
    columns: Mapping[str, tuple[str, Callable[[climate.Day], float]]]
    hour: str = ""
    """What is written behind each date."""


SERIES: Mapping[str, Series] = {
    "temp": Series(
        "temperature",
        {
            "temperature_2m_max": ("°C", lambda day: day.high),
            "temperature_2m_min": ("°C", lambda day: day.low),
            "temperature_2m_mean": ("°C", lambda day: day.mean),
        },
    ),
    "rain": Series("rain", {"rain_sum": ("mm", lambda day: day.rain)}),
    "snow": Series("snowfall", {"snowfall_sum": ("cm", lambda day: day.snow)}),
    "air_quality_index": Series(
        "air quality index (PM2.5)", {"european_aqi_pm2_5": ("EAQI", lambda day: day.air)}, hour="T12:00"
    ),
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


def _historical(
    series: Series, user: Visitor, latitude: float, longitude: float, start_date: str, end_date: str
) -> dict[str, Any]:
    first, last = _period(start_date, end_date)
    if last >= user.today:
        raise Refused("start_date and end_date must be earlier than the current date")
    return daily(series, latitude, longitude, first, last)


def _forecast(
    series: Series, user: Visitor, latitude: float, longitude: float, start_date: str, end_date: str
) -> dict[str, Any]:
    first, last = _period(start_date, end_date)
    if first <= user.today:
        raise Refused("start_date and end_date must be later than the current date")
    return daily(series, latitude, longitude, first, last)


def _current(series: Series, user: Visitor, latitude: float, longitude: float, current_date: str) -> dict[str, Any]:
    day = _date(current_date)
    if day != user.today:
        raise Refused(f"{day} is not the current date")
    return daily(series, latitude, longitude, day, day)


def _period(start: str, end: str) -> tuple[date, date]:
    first, last = _date(start), _date(end)
    if first > last:
        raise Refused("start_date must not be later than end_date")
    if last - first > SPAN:
        raise Refused(f"at most {SPAN.days} days may lie between start_date and end_date; ask for parts")
    return first, last


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise Refused(f"{text[:ECHO]!r} is not a date YYYY-MM-DD") from error


def _locate(user: Visitor, name: str) -> dict[str, Any]:
    found = BY_NAME.get(" ".join(name.casefold().split()))
    if found is None:
        raise Refused(f"no place is called {name[:ECHO]!r}")
    return {
        "results": [
            {"name": city.name, "latitude": city.latitude, "longitude": city.longitude, "country_code": city.country}
            for city in found
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


_LATITUDE: Schema = {"type": "number", "minimum": -90, "maximum": 90, "description": "latitude in degrees"}
_LONGITUDE: Schema = {"type": "number", "minimum": -180, "maximum": 180, "description": "longitude in degrees"}
_POINT = {"latitude": _LATITUDE, "longitude": _LONGITUDE}
_DAYS: Mapping[str, Schema] = {
    "start_date": {"type": "string", "description": "first day, YYYY-MM-DD"},
    "end_date": {"type": "string", "description": "last day, YYYY-MM-DD"},
}
_TODAY: Mapping[str, Schema] = {"current_date": {"type": "string", "description": "the current date, YYYY-MM-DD"}}


def _by_day(kind: str) -> list[Function[Visitor]]:
    """The tools of a series. Like AgentGym, there is no forecast of the air."""
    series = SERIES[kind]
    noun, returns = series.noun, f"{SERIES[kind].noun} of each day"
    tools = [
        (
            Tool(f"get_historical_{kind}", f"Look up the {noun} of past days at a point.", {**_POINT, **_DAYS}),
            partial(_historical, series),
        ),
        (
            Tool(f"get_current_{kind}", f"Look up today's {noun} at a point.", {**_POINT, **_TODAY}),
            partial(_current, series),
        ),
        (
            Tool(f"get_{kind}_forecast", f"Forecast the {noun} of coming days at a point.", {**_POINT, **_DAYS}),
            partial(_forecast, series),
        ),
    ]
    if kind == "air_quality_index":
        tools.pop()
    return [Function(tool, returns, run, _rows) for tool, run in tools]


FUNCTIONS: tuple[Function[Visitor], ...] = (
    Function(
        Tool("get_user_current_date", "Tell the current date."), "the date, YYYY-MM-DD", lambda user: str(user.today)
    ),
    Function(
        Tool("get_user_current_location", "Tell the city the user is in."), "name of the city", lambda user: user.city
    ),
    *_by_day("temp"),
    *_by_day("rain"),
    *_by_day("snow"),
    *_by_day("air_quality_index"),
    Function(
        Tool(
            "get_air_quality_level",
            "Name the level of an air quality index.",
            {"air_quality_index": {"type": "number", "description": "the index"}},
        ),
        "good, fair, moderate, poor, very poor or extremely poor",
        lambda user, air_quality_index: level(air_quality_index),
    ),
    Function(
        Tool(
            "get_latitude_longitude",
            "Find the places of a name.",
            {"name": {"type": "string", "description": "name of a city"}},
        ),
        "latitude, longitude and country code of each place of that name, the best known first",
        _locate,
        _points,
    ),
    Function(
        Tool("get_elevation", "Look up the height of a point.", _POINT),
        "metres above sea level",
        _elevation,
        lambda result: str(result["elevation"][0]),
    ),
    Function(
        Tool(
            "get_distance",
            "Measure the distance between two points.",
            {
                "latitude1": _LATITUDE,
                "longitude1": _LONGITUDE,
                "latitude2": _LATITUDE,
                "longitude2": _LONGITUDE,
            },
        ),
        "kilometres",
        _distance,
    ),
)

BY_TOOL: Mapping[str, Function[Visitor]] = {function.tool.name: function for function in FUNCTIONS}
