"""Clients and tasks of AgentGym's environments, with the names that they have there."""

from __future__ import annotations

from agentgym_rl.compat.agentenv.client import EnvClient
from agentgym_rl.compat.agentenv.controller import BaseTask

PREFIXES = (
    *("Academia", "AlfWorld", "BabyAI", "Maze", "Movie", "SearchQA", "Sciworld", "Sheet", "SqlGym", "TextCraft"),
    *("Todo", "Weather", "Webarena", "Webshop", "Wordle"),
)
"""Of the classes ``<prefix>EnvClient`` and ``<prefix>Task``; in small letters the name of the environment."""

ENV_NAMES = {
    "Maze": "LMRL-Gym.maze",
    "Sciworld": "SciWorld",
    "SqlGym": "SQLGym",
    "Webshop": "WebShop",
    "Wordle": "LMRL-Gym.wordle",
}
"""``env_name`` of the tasks for which it is not the prefix."""


def _classes() -> dict[str, type]:
    found: dict[str, type] = {}
    for prefix in PREFIXES:
        client = type(f"{prefix}EnvClient", (EnvClient,), {"env": prefix.lower(), "__module__": __name__})
        members = {"env_client_cls": client, "env_name": ENV_NAMES.get(prefix, prefix), "__module__": __name__}
        task = type(f"{prefix}Task", (BaseTask,), members)
        found |= {client.__name__: client, task.__name__: task}
    return found


_CLASSES = _classes()
globals().update(_CLASSES)
__all__ = sorted(_CLASSES)
