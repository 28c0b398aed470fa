"""What the agent is asked in a task, for the list."""

from collections.abc import Iterable
from functools import cache

from agentgym_rl.envs.core import EnvError, Task, TextEnv
from agentgym_rl.envs.registry import make

LENGTH = 200
"""Most characters of a goal."""


def goals(item_ids: Iterable[str]) -> dict[str, str]:
    """Goals by item id; without tasks whose environment is not installed, or needs options to know them."""
    return {item_id: goal for item_id in item_ids if (goal := _goal(item_id)) is not None}


@cache
def _goal(item_id: str) -> str | None:
    try:
        task = Task.parse(item_id)
        return _env(task.env).goal(task)[:LENGTH]
    except EnvError:
        return None


@cache
def _env(name: str) -> TextEnv:
    return make(name)
