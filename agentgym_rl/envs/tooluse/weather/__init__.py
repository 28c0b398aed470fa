"""Weather: questions about places and days, answered by calls of weather tools."""

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse.env import ToolEnv
from agentgym_rl.envs.tooluse.tasks import GeneratedTasks
from agentgym_rl.envs.tooluse.weather import questions
from agentgym_rl.envs.tooluse.weather.draft import WeatherDraft
from agentgym_rl.envs.tooluse.weather.tools import Visitor

TASKS: GeneratedTasks[Visitor] = GeneratedTasks("weather", WeatherDraft, WeatherDraft.texts.kinds(questions))


class Weather(ToolEnv[Visitor]):
    """The tools of AgentGym's weather environment over a climate of this package, with generated questions.

    Args:
        style: wording of instruction and observations.
        tasks: a file of tasks that take the place of these, :mod:`agentgym_rl.envs.tooluse.written`.

    Raises:
        ValueError: the file is malformed.
    """

    name = "weather"

    def __init__(self, style: Style = "agentgym", tasks: str | None = None) -> None:
        super().__init__(style, WeatherDraft, TASKS, tasks)
