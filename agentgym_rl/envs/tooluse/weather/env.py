"""Weather: questions about places and days, answered by calls of weather tools."""

from __future__ import annotations

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse.env import ToolWorld
from agentgym_rl.envs.tooluse.tasks import Drawn
from agentgym_rl.envs.tooluse.weather import one_place, places
from agentgym_rl.envs.tooluse.weather.tools import FUNCTIONS, Visitor

TASKS: Drawn[Visitor] = Drawn(
    name="weather",
    levels={
        range(3, 4): (one_place.on_a_date, one_place.total, one_place.extreme_date, one_place.days_of_kind),
        range(4, 6): (
            one_place.near_today,
            one_place.air_level,
            places.apart,
            one_place.near_total,
            places.height_difference,
            places.most_of_several,
            one_place.near_days,
            places.mean_of_several,
        ),
        range(6, 10): (
            one_place.against_today,
            places.here_or_there,
            one_place.before_and_after,
            places.nearest,
            places.most_of_several,
            one_place.dry_and_mild,
        ),
    },
    official=range(343),
    missing="their answers come from live weather services; play them on AgentGym's own server through host=remote",
)

ABOUT = "You answer a question about weather, places and distances."

HINT = (
    "Take coordinates from get_latitude_longitude, never from memory: what you remember may differ. Of several places "
    "of a name, the first is meant unless the question names a country. What lies before the current date is "
    "historical, what lies after it is a forecast, and one call covers at most 30 days from first to last."
)

EXAMPLE = """\
Goal: What was the lowest temperature here yesterday? Answer with a number in degrees Celsius.
Thought: I need to know which day yesterday was, and where the user is.

Action: get_user_current_date with Action Input: {}
Observation: 2019-05-01
Thought: Yesterday was 2019-04-30. Now for the place.

Action: get_user_current_location with Action Input: {}
Observation: Toulon
Thought: The temperature tool wants coordinates.

Action: get_latitude_longitude with Action Input: {"name": "Toulon"}
Observation: {'results': [{'name': 'Toulon', 'latitude': 43.12, 'longitude': 5.93, 'country_code': 'FR'}]}
Thought: Yesterday is past, so I ask for historical temperatures.

Action: get_historical_temp with Action Input: \
{"latitude": 43.12, "longitude": 5.93, "start_date": "2019-04-30", "end_date": "2019-04-30"}
Observation: {'latitude': 43.12, 'longitude': 5.93, 'daily_units': {'time': 'iso8601', 'temperature_2m_max': '°C', \
'temperature_2m_min': '°C', 'temperature_2m_mean': '°C'}, 'daily': {'time': ['2019-04-30'], \
'temperature_2m_max': [19.2], 'temperature_2m_min': [10.4], 'temperature_2m_mean': [14.1]}}
Thought: The lowest temperature was 10.4.

Action: finish with Action Input: {"answer": 10.4}
Observation: 10.4"""


class Weather(ToolWorld[Visitor]):
    """The tools of AgentGym's weather world over a climate that is made up, with questions of our own.

    Args:
        style: wording of instruction and observations.
    """

    name = "weather"

    def __init__(self, style: Style = "agentgym") -> None:
        super().__init__(
            style,
            functions=FUNCTIONS,
            tasks=TASKS,
            about=ABOUT,
            hint=HINT,
            example=EXAMPLE,
            max_turns=15,
            licence="Apache-2.0; names of tools and shapes of results are facts of AgentGym and Open-Meteo",
        )
