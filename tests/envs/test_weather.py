"""Weather: the tools, the climate, what is asked. What all environments of tools share is in test_tooluse."""

from datetime import date, timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_sessions import call, run_episode

from agentgym_rl.envs import Task
from agentgym_rl.envs.core import Style, TaskNotFound
from agentgym_rl.envs.tooluse import Refused
from agentgym_rl.envs.tooluse.weather import TASKS, Weather
from agentgym_rl.envs.tooluse.weather.climate import BY_NAME, CITIES, NEAR, UNIQUE, Day, distance, place, weather
from agentgym_rl.envs.tooluse.weather.tools import FUNCTIONS, Visitor, level

USER = Visitor(date(2020, 3, 10), "Oslo")
OSLO = {"latitude": 59.91, "longitude": 10.75}


def use(name: str, /, **arguments: object) -> object:
    return FUNCTIONS[name].run(USER, **arguments)


GOAL = "What is the highest temperature in Manchester 4 days from today? Answer with a number in degrees Celsius."
ACTIONS = (
    call("get_user_current_date"),
    call("get_latitude_longitude", name="manchester"),
    call("get_temp_forecast", latitude=53.5, longitude=-2.2, start_date="2017-04-06", end_date="2017-04-06"),
    call("get_current_temp", latitude=53.5, longitude=-2.2, current_date="2017-04-06"),
    call("finish", answer="11.1 °C"),
)


@pytest.mark.parametrize(
    ("style", "first", "expected"),
    [
        (
            "agentgym",
            f"Now new trial starts.\nYou should perform actions to accomplish the goal: {GOAL}\nGive me one action.",
            [
                "Observation: 2017-04-02\nGive me one action.",
                "Observation: {'results': [{'name': 'Manchester', 'latitude': 53.48, 'longitude': -2.24, "
                "'country_code': 'GB'}]}\nGive me one action.",
                "Observation: {'latitude': 53.48, 'longitude': -2.24, 'daily_units': {'time': 'iso8601', "
                "'temperature_2m_max': '°C', 'temperature_2m_min': '°C', 'temperature_2m_mean': '°C'}, 'daily': "
                "{'time': ['2017-04-06'], 'temperature_2m_max': [11.1], 'temperature_2m_min': [4.5], "
                "'temperature_2m_mean': [6.7]}}\nGive me one action.",
                "Observation: ERROR | 2017-04-06 is not the current date\nGive me one action.",
                "Observation: 11.1 °C\nGive me one action.",
            ],
        ),
        (
            "compact",
            GOAL,
            [
                "2017-04-02",
                "53.48 -2.24 GB",
                "2017-04-06 11.1 4.5 6.7",
                "invalid: 2017-04-06 is not the current date",
                "11.1 °C",
            ],
        ),
    ],
)
def test_transcript(style: Style, first: str, expected: list[str]) -> None:
    goal, steps = run_episode(Weather(style), 1001, *ACTIONS)
    assert goal == first
    assert [step.observation.text for step in steps] == expected
    assert [step.reward for step in steps] == [0, 0, 0, 0, 1]
    assert [step.info["invalid"] for step in steps] == [False, False, False, True, False]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("get_historical_temp", {"start_date": "2020-03-01", "end_date": "2020-03-10"}, "earlier than the current"),
        ("get_rain_forecast", {"start_date": "2020-03-10", "end_date": "2020-03-12"}, "later than the current"),
        ("get_historical_snow", {"start_date": "2020-01-01", "end_date": "2020-02-01"}, "at most 30 days"),
        ("get_historical_rain", {"start_date": "2020-01-02", "end_date": "2020-01-01"}, "must not be later"),
        ("get_current_air_quality_index", {"current_date": "10.3.2020"}, "'10.3.2020' is not a date"),
        ("get_current_temp", {"current_date": "2020-03-11"}, "2020-03-11 is not the current date"),
    ],
)
def test_days_on_the_wrong_side(name: str, arguments: dict[str, str], message: str) -> None:
    with pytest.raises(Refused, match=message):
        use(name, **OSLO, **arguments)


def test_places() -> None:
    assert use("get_elevation", **OSLO) == {"elevation": [23.0]}
    assert use("get_distance", latitude1=0, longitude1=0, latitude2=0, longitude2=90) == pytest.approx(10007.543)
    places = use("get_latitude_longitude", name=" cordoba")
    assert isinstance(places, dict)
    assert [place["country_code"] for place in places["results"]] == ["AR", "ES"]
    with pytest.raises(Refused, match="no place is called 'Atlantis'"):
        use("get_latitude_longitude", name="Atlantis")


def test_a_point_near_a_city_has_its_weather() -> None:
    same = {"start_date": "2020-03-01", "end_date": "2020-03-05"}
    exact = use("get_historical_temp", **OSLO, **same)
    assert use("get_historical_temp", latitude=60, longitude=10.5, **same) == exact
    assert use("get_historical_temp", latitude=62, longitude=10.5, **same) != exact


@pytest.mark.parametrize(
    ("index", "name"),
    [
        (0, "good"),
        (20, "good"),
        (20.5, "fair"),
        (60, "moderate"),
        (80, "poor"),
        (100, "very poor"),
        (101, "extremely poor"),
    ],
)
def test_levels_of_air_quality(index: float, name: str) -> None:
    assert level(index) == name


@given(st.floats(-90, 90), st.floats(-180, 180), st.dates(max_value=date(9999, 12, 30)))
def test_the_weather_of_any_point_and_day_is_plausible(latitude: float, longitude: float, when: date) -> None:
    where = place(latitude, longitude)
    day = weather(where, when)
    assert day == weather(place(latitude, longitude), when)
    assert -90 < day.low < day.mean < day.high < 60
    assert day.rain >= 0 and day.snow >= 0 and 3 <= day.air <= 120
    assert day.snow == 0 or day.mean <= 3


def test_seasons() -> None:
    def mean(name: str, first: date) -> float:
        city = BY_NAME[name][0]
        where = place(city.latitude, city.longitude)
        days: list[Day] = [weather(where, first + timedelta(each)) for each in range(60)]
        return sum(day.mean for day in days) / len(days)

    assert mean("oslo", date(2020, 7, 1)) > mean("oslo", date(2020, 1, 1)) + 10
    assert mean("sydney", date(2020, 7, 1)) < mean("sydney", date(2020, 1, 1)) - 5
    assert mean("quito", date(2020, 7, 1)) < mean("singapore", date(2020, 7, 1)) - 8


def test_cities_are_apart() -> None:
    assert len(CITIES) == len({(city.name, city.country) for city in CITIES}) == 350 and len(UNIQUE) > 300
    for city, other in combinations(CITIES, 2):
        if abs(city.latitude - other.latitude) < 1:
            assert distance(city.latitude, city.longitude, other.latitude, other.longitude) > NEAR
    assert all(-90 < city.latitude < 90 and -180 < city.longitude < 180 for city in CITIES)


def test_official_tasks_are_left_to_their_server() -> None:
    with pytest.raises(TaskNotFound, match=r"weather_342 is a task of AgentGym's.*host=remote"):
        Weather().goal(Task("weather", 342))
    with pytest.raises(TaskNotFound, match="weather has no task 343"):
        Weather().goal(Task("weather", 343))


@pytest.mark.slow
def test_cities_of_several_places_are_named_with_their_country() -> None:
    unique = {city.name for city in UNIQUE}
    seen = 0
    for index in TASKS.splits["train"]:
        problem = TASKS.problem(index)
        for name, arguments in problem.plan:
            if name == "get_latitude_longitude" and arguments["name"] not in unique:
                assert f"{arguments['name']} (" in problem.goal
                seen += 1
    assert seen > 10
