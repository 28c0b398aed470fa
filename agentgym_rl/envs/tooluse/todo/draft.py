"""An account drawn at random, and the desk at which a kind of task makes a problem of one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from random import Random
from typing import Any

from agentgym_rl.envs.tooluse import Call, Problem
from agentgym_rl.envs.tooluse.todo.account import Account, Item, Project
from agentgym_rl.envs.tooluse.todo.catalogue import CATALOGUE, CITIES, PEOPLE, PLACES
from agentgym_rl.envs.tooluse.todo.judge import judge
from agentgym_rl.envs.tooluse.todo.tools import Session

DURATIONS = (10, 15, 20, 25, 30, 40, 45, 50, 60, 75, 90, 100, 120)
"""Minutes a task may take."""


def account(rng: Random) -> Account:
    """3 to 5 projects with 2 to 4 tasks each, due from 9 days ago to 20 days ahead."""
    today = date(2015, 1, 1) + timedelta(rng.randrange(3650))
    project_ids, item_ids = (iter(_ids(rng, start)) for start in ("22", "29"))
    projects = tuple(
        Project(next(project_ids), name, order, is_favorite=rng.random() < 0.2)
        for order, name in enumerate(rng.sample(list(CATALOGUE), rng.randint(3, 5)), start=1)
    )
    items: list[Item] = []
    for project in projects:
        kind, known = CATALOGUE[project.name]
        for order, (content, bring) in enumerate(rng.sample(known, rng.randint(2, 4)), start=1):
            items.append(
                Item(
                    id=next(item_ids),
                    project_id=project.id,
                    order=order,
                    content=content,
                    description=_description(rng.choice(PLACES[kind]), bring, rng.choice(PEOPLE)),
                    due=today + timedelta(rng.randint(-9, 20)),
                    priority=rng.randint(1, 4),
                    minutes=rng.choice(DURATIONS),
                )
            )
    return Account(today, rng.choice(CITIES), projects, tuple(items))


def _description(place: str, bring: str, contact: str) -> str:
    return f"- Place: {place}\n- Bring: {bring}\n- Contact: {contact}"


def _ids(rng: Random, start: str) -> Iterable[str]:
    """Ten digits each, never one twice."""
    return (f"{start}{number:08d}" for number in rng.sample(range(10**8), 24))


@dataclass
class Desk:
    """Random choices about an account, and the calls of a plan in the order they are made."""

    account: Account
    rng: Random
    calls: list[Call] = field(default_factory=list)

    @cached_property
    def project(self) -> Project:
        """The project the task is about."""
        return self.rng.choice(self.account.projects)

    @cached_property
    def items(self) -> list[Item]:
        """Its tasks."""
        return self.account.of(self.project)

    @cached_property
    def item(self) -> Item:
        """The task of the project that the task is about."""
        return self.rng.choice(self.items)

    def call(self, name: str, **arguments: Any) -> None:
        self.calls.append((name, arguments))

    def read_date(self) -> None:
        self.call("get_user_current_date")

    def read_project(self) -> None:
        """Look the project's tasks up."""
        self.call("get_projects")
        self.call("get_tasks", project_id=self.project.id)

    def read_all(self, until: Item | None = None) -> None:
        """Look all tasks up, or those of the projects down to the one that has ``until``."""
        self.call("get_projects")
        for project in self.account.projects:
            self.call("get_tasks", project_id=project.id)
            if until is not None and until.project_id == project.id:
                return

    def read_durations(self, items: Iterable[Item]) -> None:
        for item in items:
            self.call("get_task_duration", task_id=item.id)

    def complete(self, items: Iterable[Item]) -> None:
        for item in items:
            self.call("complete_task", task_id=item.id)

    def delete(self, items: Iterable[Item]) -> None:
        for item in items:
            self.call("delete_task", task_id=item.id)

    def move(self, items: Iterable[Item]) -> None:
        """Give tasks the due dates these carry."""
        for item in items:
            self.call("update_task", task_id=item.id, due_date=item.due.isoformat())

    def answer(self, goal: str, answer: object) -> Problem[Session]:
        """A question: nothing may be changed."""
        return self.problem(goal, answer, self.account)

    def problem(self, goal: str, answer: object, after: Account) -> Problem[Session]:
        """A task that ends with the account ``after`` and, unless it is None, the answer."""
        start = self.account
        return Problem(
            goal=goal,
            start=lambda: Session(start),
            progress=judge(start, after, answer),
            plan=(*self.calls, ("finish", {"answer": "done" if answer is None else answer})),
            context=f"account {fingerprint(start)}",
        )


Kind = Callable[[Desk], Problem[Session] | None]
"""Makes a problem, or None where the account does not suit it."""


def template(kind: Kind) -> Callable[[Random], Problem[Session] | None]:
    """The kind of task on an account drawn for it."""
    return lambda rng: kind(Desk(account(rng), rng))


def fingerprint(state: Account) -> str:
    """First 8 hex digits of the SHA-256 of everything in an account."""
    return hashlib.sha256(repr(state).encode()).hexdigest()[:8]


def contents(items: Iterable[Item]) -> list[str]:
    """Names of tasks, sorted."""
    return sorted(item.content for item in items)
