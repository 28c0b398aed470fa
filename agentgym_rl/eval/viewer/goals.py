"""What the agent is asked in a task, for the list."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from agentgym_rl.envs.core import EnvError, Task, TextEnv
from agentgym_rl.envs.registry import make
from agentgym_rl.envs.tables import json_object
from agentgym_rl.eval.evaluation.result import NAME as RESULT
from agentgym_rl.eval.evaluation.rules import read_config
from agentgym_rl.eval.evaluation.scores import env_of
from agentgym_rl.eval.training.settings import played

LENGTH = 200
"""Most characters of a goal."""


def goals(item_ids: Iterable[str], place: Path) -> dict[str, str]:
    """Goals by item id; without tasks whose environment is not installed, or lacks what it needs to know them.

    Args:
        place: of the episodes. A run or an evaluation has options of its environments, by which ids mean other tasks.

    Raises:
        ValueError: these cannot be read.
    """
    options = _options(place)
    found = {item_id: _goal(item_id, json.dumps(options.get(env_of(item_id), {}))) for item_id in item_ids}
    return {item_id: goal for item_id, goal in found.items() if goal is not None}


def _options(place: Path) -> dict[str, Mapping[str, Any]]:
    """By environment; of settings that a mixture made with their knobs."""
    folder = place.parent if place.is_file() else place
    folder = folder.parent if folder.name == "episodes" else folder
    if (folder / "config.yaml").is_file():
        options = {env: config.get("options", {}) for env, config in read_config(folder)["envs"].items()}
        return options | {each.name: {**options.get(each.env, {}), **each.knobs} for each in played(folder)}
    if (folder / RESULT).is_file():
        return dict(json_object(folder / RESULT)["plan"]["rules"]["options"])
    return {}


@cache
def _goal(item_id: str, options: str) -> str | None:
    try:
        task = Task.parse(item_id)
        return _env(task.env, options).goal(task)[:LENGTH]
    except (EnvError, ValueError, OSError):  # a file of tasks may have been moved
        return None


@cache
def _env(name: str, options: str) -> TextEnv:
    return make(name, **json.loads(options))
