"""A to-do account: projects and their tasks, the user's date and city. Immutable, so states compare with ``==``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta


@dataclass(frozen=True, slots=True)
class Project:
    """A list of tasks. ``order`` counts from 1."""

    id: str
    name: str
    order: int
    is_favorite: bool = False
    color: str = "charcoal"


@dataclass(frozen=True, slots=True)
class Item:
    """A task of the user's. ``order`` counts from 1 within the project; ``priority`` is 1 (normal) to 4 (urgent)."""

    id: str
    project_id: str
    order: int
    content: str
    description: str
    due: date
    priority: int
    minutes: int
    is_completed: bool = False

    def later(self, days: int) -> Item:
        """The task, due this many days later."""
        return replace(self, due=self.due + timedelta(days))

    def detail(self, label: str) -> str:
        """The rest of the line ``- <label>: ...`` of the description. Raises KeyError: there is no such line."""
        lines = (line.removeprefix("- ").partition(": ") for line in self.description.splitlines())
        return {name: text for name, _, text in lines}[label]


@dataclass(frozen=True, slots=True)
class Account:
    """Everything the tools read and change."""

    today: date
    city: str
    projects: tuple[Project, ...]
    items: tuple[Item, ...]

    def of(self, project: Project) -> list[Item]:
        """The project's open tasks, in order."""
        return [item for item in self.open if item.project_id == project.id]

    @property
    def open(self) -> list[Item]:
        """The tasks that are not completed."""
        return [item for item in self.items if not item.is_completed]

    def with_item(self, changed: Item) -> Account:
        """The account with this in place of the task of the same id."""
        return replace(self, items=tuple(changed if item.id == changed.id else item for item in self.items))

    def without(self, gone: Item) -> Account:
        return replace(self, items=tuple(item for item in self.items if item is not gone))

    def with_project(self, changed: Project) -> Account:
        """The account with this in place of the project of the same id."""
        return replace(self, projects=tuple(changed if old.id == changed.id else old for old in self.projects))
