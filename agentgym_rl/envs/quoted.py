"""Conversations of AgentTraj whose texts an environment takes over."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym_rl.envs.core import Task, TaskNotFound
from agentgym_rl.envs.tables import json_list


def conversations(path: str | Path, env: str) -> Iterator[tuple[Task, str, str]]:
    """Task, first and third message (instruction, first observation) of each conversation with an environment.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not JSON, an entry is no conversation of AgentTraj, or none is with the environment.
    """
    any_found = False
    for number, entry in enumerate(json_list(Path(path)), start=1):
        try:
            task = Task.parse(entry["item_id"])
            if task.env == env:
                yield task, *_beginning(entry["conversations"])
                any_found = True
        except (KeyError, TypeError, ValueError, TaskNotFound) as error:
            raise ValueError(f"{path}, entry {number}: it is no conversation of AgentTraj: {error!r}") from error
    if not any_found:
        raise ValueError(f"{path} has no conversation with {env}")


def _beginning(messages: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Instruction and first observation. Between them is an acknowledgement, which is not trained on."""
    first = messages[:3]
    if [message["from"] for message in first] != ["human", "gpt", "human"] or first[1].get("loss"):
        raise ValueError("it does not begin with an instruction, an acknowledgement without loss and an observation")
    return first[0]["value"], first[2]["value"]
