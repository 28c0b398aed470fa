"""Tasks of one's own for a harness, which plays them by itself: ``env=harness``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym_rl.envs.core import (
    EnvSpec,
    EnvUnavailable,
    Observation,
    ProtocolError,
    Step,
    Style,
    Task,
    TaskNotFound,
    TextEnv,
)
from agentgym_rl.envs.tables import numbered_jsonl

MISSING = "without a file: set the option tasks (JSON lines)"


class HarnessTasks(TextEnv):
    """The lines of a file, each an object with a ``goal``, a ``split`` (train by default), a ``difficulty`` and what
    else the harness wants to know.

    Args:
        style: has no effect, because the harness words its own prompts.
        tasks: the file.
        max_turns: default limit of the model's replies.
        success_above: an episode is a success when its reward is greater than this.

    Raises:
        ValueError: there is no such file, or a line is no task; names file, line and fault.
    """

    name = "harness"

    def __init__(
        self, style: Style = "agentgym", tasks: str | None = None, max_turns: int = 30, success_above: float = 0.5
    ) -> None:
        super().__init__(style)
        self._tasks: Sequence[Mapping[str, Any]] = () if tasks is None else _read(Path(tasks))
        names = dict.fromkeys(("train", "test", *(task["split"] for task in self._tasks)))
        splits = {name: tuple(at for at, task in enumerate(self._tasks) if task["split"] == name) for name in names}
        self._spec = EnvSpec(
            name=self.name, instructions={"agentgym": "", "compact": ""}, splits=splits, max_turns=max_turns,
            success_above=success_above, deterministic=False, replayable=False, licence="the file's",
            unavailable={} if self._tasks else dict.fromkeys(splits, MISSING),
        )  # fmt: skip

    def briefing(self, task: Task) -> dict[str, Any]:
        return dict(self._find(task))

    def goal(self, task: Task) -> str:
        return str(self._find(task)["goal"])

    def difficulty(self, task: Task) -> str:
        return str(self._find(task)["difficulty"])

    async def _reset(self, task: Task) -> Observation:
        return Observation(json.dumps(self._find(task), ensure_ascii=False))

    async def _step(self, action: str) -> Step:
        raise ProtocolError(
            "tasks of env=harness are played by a program: envs.harness.harness of a run, harness= of eval"
        )

    def _find(self, task: Task) -> Mapping[str, Any]:
        index = self._index(task)
        if not self._tasks:
            raise EnvUnavailable(f"harness has no tasks {MISSING}")
        if not 0 <= index < len(self._tasks):
            raise TaskNotFound(f"harness has no task {index}: valid are 0 to {len(self._tasks) - 1}")
        return self._tasks[index]


def _read(path: Path) -> Sequence[Mapping[str, Any]]:
    if not path.is_file():
        raise ValueError(f"no file of tasks at {path}")
    stamp = path.stat()
    return _lines(path.resolve(), stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=16)
def _lines(path: Path, changed: int, size: int) -> Sequence[Mapping[str, Any]]:
    """The tasks of a file as of its last change, so that sessions share them."""
    tasks = []
    for number, line in numbered_jsonl(path):
        if not isinstance(line, dict):
            raise ValueError(f"{path}:{number}: a task is a JSON object")
        task = {"split": "train", "difficulty": "harness", **line}
        for key in ("goal", "split", "difficulty"):
            if not isinstance(task.get(key), str) or not task[key].strip():
                raise ValueError(f"{path}:{number}: {key} should be a text")
        tasks.append(task)
    if not tasks:
        raise ValueError(f"{path} holds no task")
    return tuple(tasks)
