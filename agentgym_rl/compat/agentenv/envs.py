"""Clients and tasks of AgentGym's environments, by the names they have there."""

from __future__ import annotations

from agentgym_rl.compat.agentenv.client import EnvClient
from agentgym_rl.compat.agentenv.controller.task import BaseTask


class AcademiaEnvClient(EnvClient):
    env = "academia"


class AcademiaTask(BaseTask):
    env_client_cls = AcademiaEnvClient
    env_name = "Academia"


class AlfWorldEnvClient(EnvClient):
    env = "alfworld"


class AlfWorldTask(BaseTask):
    env_client_cls = AlfWorldEnvClient
    env_name = "AlfWorld"


class BabyAIEnvClient(EnvClient):
    env = "babyai"


class BabyAITask(BaseTask):
    env_client_cls = BabyAIEnvClient
    env_name = "BabyAI"


class MazeEnvClient(EnvClient):
    env = "maze"


class MazeTask(BaseTask):
    env_client_cls = MazeEnvClient
    env_name = "LMRL-Gym.maze"


class MovieEnvClient(EnvClient):
    env = "movie"


class MovieTask(BaseTask):
    env_client_cls = MovieEnvClient
    env_name = "Movie"


class SearchQAEnvClient(EnvClient):
    env = "searchqa"


class SearchQATask(BaseTask):
    env_client_cls = SearchQAEnvClient
    env_name = "SearchQA"


class SciworldEnvClient(EnvClient):
    env = "sciworld"


class SciworldTask(BaseTask):
    env_client_cls = SciworldEnvClient
    env_name = "SciWorld"


class SheetEnvClient(EnvClient):
    env = "sheet"


class SheetTask(BaseTask):
    env_client_cls = SheetEnvClient
    env_name = "Sheet"


class SqlGymEnvClient(EnvClient):
    env = "sqlgym"


class SqlGymTask(BaseTask):
    env_client_cls = SqlGymEnvClient
    env_name = "SQLGym"


class TextCraftEnvClient(EnvClient):
    env = "textcraft"


class TextCraftTask(BaseTask):
    env_client_cls = TextCraftEnvClient
    env_name = "TextCraft"


class TodoEnvClient(EnvClient):
    env = "todo"


class TodoTask(BaseTask):
    env_client_cls = TodoEnvClient
    env_name = "Todo"


class WeatherEnvClient(EnvClient):
    env = "weather"


class WeatherTask(BaseTask):
    env_client_cls = WeatherEnvClient
    env_name = "Weather"


class WebarenaEnvClient(EnvClient):
    env = "webarena"


class WebarenaTask(BaseTask):
    env_client_cls = WebarenaEnvClient
    env_name = "Webarena"


class WebshopEnvClient(EnvClient):
    env = "webshop"


class WebshopTask(BaseTask):
    env_client_cls = WebshopEnvClient
    env_name = "WebShop"


class WordleEnvClient(EnvClient):
    env = "wordle"


class WordleTask(BaseTask):
    env_client_cls = WordleEnvClient
    env_name = "LMRL-Gym.wordle"


__all__ = [
    "AcademiaEnvClient",
    "AcademiaTask",
    "AlfWorldEnvClient",
    "AlfWorldTask",
    "BabyAIEnvClient",
    "BabyAITask",
    "MazeEnvClient",
    "MazeTask",
    "MovieEnvClient",
    "MovieTask",
    "SciworldEnvClient",
    "SciworldTask",
    "SearchQAEnvClient",
    "SearchQATask",
    "SheetEnvClient",
    "SheetTask",
    "SqlGymEnvClient",
    "SqlGymTask",
    "TextCraftEnvClient",
    "TextCraftTask",
    "TodoEnvClient",
    "TodoTask",
    "WeatherEnvClient",
    "WeatherTask",
    "WebarenaEnvClient",
    "WebarenaTask",
    "WebshopEnvClient",
    "WebshopTask",
    "WordleEnvClient",
    "WordleTask",
]
