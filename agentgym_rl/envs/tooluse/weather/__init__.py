"""Weather: questions about places and days, answered by calls of weather tools."""

from __future__ import annotations

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse.env import ToolEnv
from agentgym_rl.envs.tooluse.tasks import GeneratedTasks
from agentgym_rl.envs.tooluse.weather import questions
from agentgym_rl.envs.tooluse.weather.draft import WeatherDraft
from agentgym_rl.envs.tooluse.weather.tools import FUNCTIONS, TEXTS, Visitor

TASKS: GeneratedTasks[Visitor] = GeneratedTasks(
    "weather",
    WeatherDraft,
    {
        range(3, 4): (questions.on_a_date, questions.total, questions.extreme_date, questions.days_of_kind),
        range(4, 6): (
            questions.near_today,
            questions.air_level,
            questions.apart,
            questions.near_total,
            questions.height_difference,
            questions.most_of_several,
            questions.near_days,
            questions.mean_of_several,
        ),
        range(6, 10): (
            questions.against_today,
            questions.here_or_there,
            questions.before_and_after,
            questions.nearest,
            questions.most_of_several,
            questions.dry_and_mild,
        ),
    },
)


class Weather(ToolEnv[Visitor]):
    """The tools of AgentGym's weather environment over a climate of this package, with generated questions.

    Args:
        style: wording of instruction and observations.
    """

    name = "weather"

    def __init__(self, style: Style = "agentgym") -> None:
        super().__init__(style, TEXTS, FUNCTIONS, TASKS)
