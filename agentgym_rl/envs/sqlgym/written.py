"""Questions of a file, about the databases of other questions: beside the keys of every file of tasks ``query``."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym_rl.envs import task_file
from agentgym_rl.envs.sqlgym.bird import Bird
from agentgym_rl.envs.sqlgym.question import Question
from agentgym_rl.envs.sqlgym.sandbox import Source
from agentgym_rl.envs.sqlgym.tasks import BuiltIn
from agentgym_rl.envs.task_file import WrittenTask

KEYS = task_file.KEYS | {"query"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenQuestion(WrittenTask):
    """One line of a file."""

    query: str
    """The gold query."""


class Written:
    """The questions of a file.

    Args:
        path: the file.
        own: the questions whose databases these are about.

    Raises:
        ValueError: see :func:`agentgym_rl.envs.task_file.read_tasks`, or a ``start`` does not exist.
    """

    def __init__(self, path: str | Path, own: BuiltIn | Bird) -> None:
        self._own = own
        self._tasks = task_file.read_tasks(path, _question)
        self._starts = task_file.starts_of(path, "sqlgym", self._tasks, own.splits)
        self.limits = own.limits
        self.splits: Mapping[str, Any] = task_file.splits_of(self._tasks)

    def question(self, index: int) -> Question:
        task = self._find(index)
        return replace(self._own.question(self._starts[index]), text=task.instruction, gold=task.query, evidence="")

    def difficulty(self, index: int) -> str:
        return self._find(index).difficulty

    def source(self, index: int) -> Source:
        self._find(index)
        return self._own.source(self._starts[index])

    def _find(self, index: int) -> WrittenQuestion:
        return task_file.task_at("sqlgym", self._tasks, index)


def _question(line: Mapping[str, Any], folder: Path) -> WrittenQuestion:
    """The question of a line. Raises ValueError: it is none; names the fault."""
    fields, query = task_file.common(line, KEYS, "written"), line.get("query")
    if not isinstance(query, str) or not query.strip():
        raise ValueError("query should be the text of a query that answers")
    return WrittenQuestion(**fields, query=query.strip())
