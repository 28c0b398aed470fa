"""AgentGym's tasks: one workbook for all, and for each a goal and the expected values of a sheet."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.tooluse import GeneratedTasks, Problem, TaskSource
from agentgym_rl.envs.tooluse.official import OfficialTask, read_official
from agentgym_rl.envs.tooluse.sheet.book import Book
from agentgym_rl.envs.tooluse.sheet.grid import Grid, value_of
from agentgym_rl.envs.tooluse.sheet.judge import Judge
from agentgym_rl.envs.tooluse.sheet.xlsx import read_xlsx


@dataclass(frozen=True, eq=False)
class OfficialTasks(TaskSource[Book]):
    """The tasks of AgentGym's files as ``test``; the other splits are those of the generated tasks.

    A task is solved when every cell of the sheet that the goal names has the expected value at ``finish``. The workbook
    also contains sheets with AgentGym's answers; they are left out.
    """

    tasks: Sequence[OfficialTask]
    book: Book
    generated: GeneratedTasks[Book]
    splits: Mapping[str, Sequence[int]]

    @classmethod
    def read(cls, official: str, workbook: str, generated: GeneratedTasks[Book]) -> OfficialTasks:
        """Read ``sheet.jsonl`` and the Excel file.

        Raises:
            ValueError: a file is missing or malformed; the message names it and the fault.
        """
        sheets = {title: grid for title, grid in read_xlsx(workbook).items() if not title.startswith("Answer")}

        def check(task: OfficialTask) -> None:
            if _title(task) not in sheets:
                raise ValueError(f"{workbook} has no sheet {_title(task)!r}")
            _wanted(task)

        tasks = read_official(official, check)
        return cls(tasks, Book(sheets), generated, {**generated.splits, "test": range(len(tasks))})

    def problem(self, index: int) -> Problem[Book]:
        if not self._has(index):
            return self.generated.problem(index)
        task = self.tasks[index]
        title = _title(task)
        return Problem(
            goal=" ".join(task.goal.split()),
            start=self.book.copy,
            progress=Judge(self.book, Book({title: _wanted(task)}), only=title),
            plan=(),
        )

    def difficulty(self, index: int) -> str:
        """``official`` for a task of AgentGym's."""
        return "official" if self._has(index) else self.generated.difficulty(index)

    def _has(self, index: int) -> bool:
        if index in self.splits["test"]:
            return True
        if index in self.generated.splits.official or self.generated.splits.locate(index)[0] == "test":
            last = len(self.tasks) - 1
            raise TaskNotFound(f"sheet has no task {index} here: valid are AgentGym's 0 to {last}, and ours but test")
        return False


def _title(task: OfficialTask) -> str:
    match = re.search(r'"(Sheet\d+)"', task.goal)
    if match is None:
        raise ValueError('the goal names no sheet such as "Sheet1"')
    return match[1]


def _wanted(task: OfficialTask) -> Grid:
    return Grid.of([[value_of(text) for text in row] for row in json.loads(task.answer)])
