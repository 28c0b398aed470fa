"""Drafts of tasks about an account: a random account, the calls of a plan, and the progress of a session."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.envs.tables import load
from agentgym_rl.envs.tooluse import Draft, Problem
from agentgym_rl.envs.tooluse.answers import matches
from agentgym_rl.envs.tooluse.todo.account import Account, Item, Project
from agentgym_rl.envs.tooluse.todo.tools import FUNCTIONS, TEXTS, Session

DURATIONS = (10, 15, 20, 25, 30, 40, 45, 50, 60, 75, 90, 100, 120)
"""Minutes a task may take."""


@dataclass(frozen=True, slots=True)
class ProjectEntry:
    place: str
    """A key of ``places``."""
    tasks: dict[str, str]
    """What to bring to each task."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What accounts hold: the file ``catalogue.toml``."""

    people: tuple[str, ...]
    cities: tuple[str, ...]
    places: dict[str, tuple[str, ...]]
    projects: dict[str, ProjectEntry]


CATALOGUE = load(Path(__file__).with_name("catalogue.toml"), Catalogue)


class TodoDraft(Draft[Session]):
    """An account of 3 to 5 projects with 2 to 4 tasks each, due from 9 days ago to 20 days ahead."""

    texts = TEXTS
    functions = FUNCTIONS

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        today = date(2015, 1, 1) + timedelta(rng.randrange(3650))
        project_ids, item_ids = (_ids(rng, start) for start in ("22", "29"))
        projects = tuple(
            Project(next(project_ids), name, order, is_favorite=rng.random() < 0.2)
            for order, name in enumerate(rng.sample(list(CATALOGUE.projects), rng.randint(3, 5)), start=1)
        )
        items = tuple(item for project in projects for item in self._items(project, item_ids, today))
        self.account = Account(today, rng.choice(CATALOGUE.cities), projects, items)

    def _items(self, project: Project, ids: Iterator[str], today: date) -> Iterable[Item]:
        rng, entry = self.rng, CATALOGUE.projects[project.name]
        for order, (content, bring) in enumerate(rng.sample(list(entry.tasks.items()), rng.randint(2, 4)), start=1):
            place, contact = rng.choice(CATALOGUE.places[entry.place]), rng.choice(CATALOGUE.people)
            yield Item(
                id=next(ids),
                project_id=project.id,
                order=order,
                content=content,
                description=f"- Place: {place}\n- Bring: {bring}\n- Contact: {contact}",
                due=today + timedelta(rng.randint(-9, 20)),
                priority=rng.randint(1, 4),
                minutes=rng.choice(DURATIONS),
            )

    def start(self) -> Session:
        return Session(self.account)

    @cached_property
    def project(self) -> Project:
        """The project of the task to be made."""
        return self.rng.choice(self.account.projects)

    @cached_property
    def items(self) -> list[Item]:
        """The tasks of the project."""
        return self.account.of(self.project)

    @cached_property
    def item(self) -> Item:
        """One task of the project."""
        return self.rng.choice(self.items)

    @cached_property
    def overdue(self) -> list[Item]:
        """The tasks of all projects that were due before today."""
        return [item for item in self.account.items if item.due < self.account.today]

    def of_priority(self, level: int) -> list[Item]:
        """The tasks of all projects with a priority."""
        return [item for item in self.account.items if item.priority == level]

    def read_project(self) -> None:
        """Look up the project's tasks."""
        self.call("get_projects")
        self.call("get_tasks", project_id=self.project.id)

    def read_all(self, until: Item | None = None) -> None:
        """Look up all tasks, or those of the projects down to the one that has ``until``."""
        self.call("get_projects")
        for project in self.account.projects:
            self.call("get_tasks", project_id=project.id)
            if until is not None and until.project_id == project.id:
                return

    def call_each(self, tool: str, items: Iterable[Item]) -> None:
        """Call a tool for each task."""
        for item in items:
            self.call(tool, task_id=item.id)

    def move(self, items: Iterable[Item]) -> None:
        """Set the due dates of tasks to those of these items."""
        for item in items:
            self.call("update_task", task_id=item.id, due_date=item.due.isoformat())

    def ask(self, template: str, answer: Any, tolerance: float = 0.0, /, **words: Any) -> Problem[Session]:
        """A task that asks for the changes that the calls make, and for an answer unless it is None."""
        progress = judge(self.account, self.state.account, answer)
        context = f"account {fingerprint(repr(self.account), 8)}"
        return self.problem(self.goal(template, **words), progress, "done" if answer is None else answer, context)

    def change(self, template: str, /, **words: Any) -> Problem[Session]:
        """A task that asks for the changes that the calls make."""
        return self.ask(template, None, **words)


def _ids(rng: Random, start: str) -> Iterator[str]:
    """Ten digits each, all different."""
    return (f"{start}{number:08d}" for number in rng.sample(range(10**8), 24))


def judge(start: Account, after: Account, expected: object) -> Callable[[Session, Any], float]:
    """The ``progress`` of a task: the share of its subgoals that are met; 0 after any other change.

    Subgoals are the projects and tasks that must change, and the answer unless ``expected`` is None.
    """
    before, required = _parts(start), _parts(after)
    due = {key for key in before if before[key] != required.get(key)}
    subgoals = len(due) + (expected is not None)

    def progress(session: Session, answer: Any) -> float:
        actual = _parts(session.account)
        if any(actual.get(key) != part for key, part in before.items() if key not in due):
            return 0.0
        met = sum(actual.get(key) == required.get(key) for key in due)
        if expected is not None and answer is not None:
            met += matches(expected, answer)
        return met / subgoals

    return progress


def _parts(account: Account) -> dict[str, Project | Item]:
    """Projects and tasks by id; no id occurs twice."""
    parts: tuple[Project | Item, ...] = (*account.projects, *account.items)
    return {part.id: part for part in parts}
