"""AgentGym's tasks: one account for all, and for each a goal, an answer and the final account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.tables import json_list
from agentgym_rl.envs.tooluse import Problem, TaskSource
from agentgym_rl.envs.tooluse.answers import matches
from agentgym_rl.envs.tooluse.official import OfficialTask, read_official
from agentgym_rl.envs.tooluse.todo.account import Account, Item, Project
from agentgym_rl.envs.tooluse.todo.tools import Session, project_row, task_row

TEST = 20
"""Tasks of ``test``: the last ones. The number is AgentGym's, which does not tell which they are."""


@dataclass(frozen=True, eq=False)
class OfficialTasks(TaskSource[Session]):
    """The tasks of AgentGym's files.

    A task is solved when ``finish`` gives its answer (any, where it is "done") and the open tasks and all projects
    equal the expected ones without ids. So a completed task equals a deleted one, as in AgentGym.
    """

    tasks: Sequence[OfficialTask]
    projects: tuple[Project, ...]
    items: tuple[Item, ...]
    splits: Mapping[str, Sequence[int]]

    @classmethod
    def read(cls, official: str, projects: str) -> OfficialTasks:
        """Read ``todo.jsonl`` and ``projects.json``.

        Raises:
            ValueError: a file is missing or malformed; the message names it and the fault.
        """
        tasks = read_official(official, lambda task: (_account(task, (), ()), _rows(task.answer)))
        cut = max(1, len(tasks) - TEST)
        splits = {"train": range(cut), "test": range(min(cut, len(tasks) - 1), len(tasks))}
        return cls(tasks, *_read_projects(projects), splits)

    def problem(self, index: int) -> Problem[Session]:
        task = self._task(index)
        start = _account(task, self.projects, self.items)
        expected = None if _answer(task) == "done" else _answer(task)
        wanted = _rows(task.answer)

        def progress(session: Session, answer: Any) -> float:
            right = answer is not None and (expected is None or matches(expected, answer))
            return (right + (_seen(session.account) == wanted)) / 2

        return Problem(
            goal=" ".join(task.goal.split()),
            start=lambda: Session(start),
            progress=progress,
            plan=(),
            context=f"today {start.today}",
        )

    def difficulty(self, index: int) -> str:
        """``question``, ``change``, or ``change and question``."""
        task = self._task(index)
        changed = _rows(task.answer) != _seen(_account(task, self.projects, self.items))
        asked = _answer(task) != "done"
        return " and ".join(["change"] * changed + ["question"] * (asked or not changed))

    def _task(self, index: int) -> OfficialTask:
        if not 0 <= index < len(self.tasks):
            raise TaskNotFound(f"todo has no task {index}: valid are AgentGym's 0 to {len(self.tasks) - 1}")
        return self.tasks[index]


def _answer(task: OfficialTask) -> Any:
    return task.subgoals[0]


def _account(task: OfficialTask, projects: tuple[Project, ...], items: tuple[Item, ...]) -> Account:
    today = date.fromisoformat(task.init_config["current_date"])
    _answer(task)
    return Account(today, str(task.init_config["current_location"]), projects, items)


def _rows(answer: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    return list(answer["projects"]), list(answer["tasks"])


def _seen(account: Account) -> tuple[list[Any], list[Any]]:
    """Projects and open tasks as AgentGym compares them: without ids."""
    rows = (
        [project_row(project) for project in account.projects],
        [task_row(item) for project in account.projects for item in account.of(project)],
    )
    for row in (*rows[0], *rows[1]):
        del row["id"]
    return rows


def _read_projects(path: str) -> tuple[tuple[Project, ...], tuple[Item, ...]]:
    if not Path(path).is_file():
        raise ValueError(f"no file of projects at {path}; give AgentGym's toolusage/utils/todo/projects.json")
    try:
        listed = json_list(Path(path))
        projects = tuple(Project(f"22{place:08d}", each["name"], place) for place, each in enumerate(listed, start=1))
        rows = [
            (project, order, row)
            for project, each in zip(projects, listed, strict=True)
            for order, row in enumerate(each["tasks"], start=1)
        ]
        return projects, tuple(_item(number, *row) for number, row in enumerate(rows, start=1))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no list of AgentGym's projects: {error!r}") from error


def _item(number: int, project: Project, order: int, row: Mapping[str, Any]) -> Item:
    if row["duration_unit"] != "minute":
        raise ValueError(f"duration unit {row['duration_unit']!r} is not minute")
    return Item(
        id=f"29{number:08d}",
        project_id=project.id,
        order=order,
        content=row["content"],
        description=row["description"],
        due=date.fromisoformat(row["due_date"]),
        priority=int(row["priority"]),
        minutes=int(row["duration"]),
    )
