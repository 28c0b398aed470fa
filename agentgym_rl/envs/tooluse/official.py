"""Reads AgentGym's files of tool tasks: JSON lines with goal, subgoals and expected answer or state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.envs.tables import numbered_jsonl
from agentgym_rl.envs.tooluse.tool import Refused


@dataclass(frozen=True, slots=True)
class OfficialTask:
    """One line. Its number is the item id; AgentGym ignores the field ``id``, too."""

    goal: str
    subgoals: Any
    answer: Any
    """Expected answer, or expected state where the goal is a state."""
    init_config: Mapping[str, Any]
    """The start of the session, such as ``current_date``; empty where nothing is set."""


def read_official(path: str | Path, check: Callable[[OfficialTask], object] = lambda task: None) -> list[OfficialTask]:
    """The tasks of a file, in order.

    Args:
        check: raises LookupError, TypeError, ValueError or :class:`Refused` where a task is not the environment's.

    Raises:
        ValueError: there is no such file, it is empty, or a line is no task; the message names file and line.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"no file of tool tasks at {path}; give AgentGym's agentenv-tool/Toolusage/data/<tool>.jsonl")
    tasks = []
    for number, data in numbered_jsonl(path):
        try:
            more = data["additional_info"]
            task = OfficialTask(data["goal"], data["subgoals"], more["answer"], more.get("init_config") or {})
            check(task)
        except (LookupError, TypeError, AttributeError, ValueError, Refused) as error:
            raise ValueError(f"{path}:{number} is no tool task of AgentGym: {error!r}") from error
        tasks.append(task)
    if not tasks:
        raise ValueError(f"{path} holds no task")
    return tasks
