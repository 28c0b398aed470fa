"""AgentEval and AgentGym-RL-Data-ID: lists of item ids, ``[{"item_id": "textcraft_12"}, ...]``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from agentgym_rl.data.files import write_text
from agentgym_rl.data.source import rows
from agentgym_rl.envs.core import Task, TaskNotFound


def read(source: str | Path) -> list[Task]:
    """The tasks of a list, in its order; other keys of an entry are passed over.

    Raises:
        FileNotFoundError: there is no such file, see :func:`agentgym_rl.data.source.rows`.
        ValueError: an entry has no item id, or one that cannot be read; names file, entry (from 1) and fault.
    """
    tasks = []
    for number, entry in enumerate(rows(source), start=1):
        item_id = entry.get("item_id") if isinstance(entry, dict) else None
        if not isinstance(item_id, str):
            raise ValueError(f"{source}, entry {number}: has no 'item_id'")
        try:
            tasks.append(Task.parse(item_id))
        except TaskNotFound as error:
            raise ValueError(f"{source}, entry {number}: {error}") from error
    return tasks


def write(path: str | Path, tasks: Iterable[Task]) -> None:
    """Write a list of item ids, whole."""
    write_text(path, json.dumps([{"item_id": str(task)} for task in tasks], indent=2) + "\n")
