"""Kinds of tasks that ask: nothing may change and the answer must be right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from agentgym_rl.envs.tooluse import Problem
from agentgym_rl.envs.tooluse.todo.draft import Desk, contents
from agentgym_rl.envs.tooluse.todo.tools import Session

T = TypeVar("T")

DATE = "Answer as YYYY-MM-DD."
NUMBER = "Answer with a number."
NAME = "Answer with its name."
NAMES = "Answer with a list of task names."
MINUTES = "Answer as number(unit), such as 30(minute)."


def due_date(desk: Desk) -> Problem[Session]:
    item = desk.item
    desk.read_project()
    return desk.answer(
        f'When is the task "{item.content}" in the project {desk.project.name} due? {DATE}', str(item.due)
    )


def priority(desk: Desk) -> Problem[Session]:
    item = desk.item
    desk.read_project()
    goal = f'What priority has the task "{item.content}" in the project {desk.project.name}? {NUMBER}'
    return desk.answer(goal, item.priority)


def duration(desk: Desk) -> Problem[Session]:
    item = desk.item
    desk.read_project()
    desk.read_durations([item])
    goal = f'How long does the task "{item.content}" in the project {desk.project.name} take? {MINUTES}'
    return desk.answer(goal, f"{item.minutes}(minute)")


def detail(desk: Desk) -> Problem[Session]:
    item = desk.item
    label, question = desk.rng.choice(
        (
            ("Place", "Where does the task {} take place? Answer with the place."),
            ("Bring", "What should I bring to the task {}? Answer as its description says."),
            ("Contact", "Whom can I contact about the task {}? Answer with the name."),
        )
    )
    desk.read_project()
    desk.call("get_task_description", task_id=item.id)
    return desk.answer(question.format(f'"{item.content}" in the project {desk.project.name}'), item.detail(label))


def size(desk: Desk) -> Problem[Session]:
    desk.read_project()
    return desk.answer(f"How many tasks are in the project {desk.project.name}? {NUMBER}", len(desk.items))


def favorite(desk: Desk) -> Problem[Session] | None:
    found = [project.name for project in desk.account.projects if project.is_favorite]
    if len(found) != 1:
        return None
    desk.call("get_projects")
    return desk.answer(f"Which project is my favorite? {NAME}", found[0])


def extreme_date(desk: Desk) -> Problem[Session] | None:
    word, pick = desk.rng.choice((("earliest", min), ("latest", max)))
    item = _only(desk.items, pick, lambda each: each.due)
    if item is None:
        return None
    desk.read_project()
    goal = f"Which task in the project {desk.project.name} has the {word} due date? {NAME}"
    return desk.answer(goal, item.content)


def urgent(desk: Desk) -> Problem[Session] | None:
    item = _only(desk.items, max, lambda each: each.priority)
    if item is None:
        return None
    desk.read_project()
    goal = f"Which task in the project {desk.project.name} has the highest priority? {NAME}"
    return desk.answer(goal, item.content)


def extreme_duration(desk: Desk) -> Problem[Session] | None:
    word, pick = desk.rng.choice((("longest", max), ("shortest", min)))
    item = _only(desk.items, pick, lambda each: each.minutes)
    if item is None:
        return None
    desk.read_project()
    desk.read_durations(desk.items)
    return desk.answer(f"Which task in the project {desk.project.name} takes {word}? {NAME}", item.content)


def total_duration(desk: Desk) -> Problem[Session]:
    desk.read_project()
    desk.read_durations(desk.items)
    goal = f"How long do all tasks in the project {desk.project.name} take together? {MINUTES}"
    return desk.answer(goal, f"{sum(item.minutes for item in desk.items)}(minute)")


def overdue_in_project(desk: Desk) -> Problem[Session] | None:
    late = [item for item in desk.items if item.due < desk.account.today]
    if not late:
        return None
    desk.read_date()
    desk.read_project()
    goal = f"Which tasks in the project {desk.project.name} are overdue, that is, were due before today? {NAMES}"
    return desk.answer(goal, contents(late))


def place_in_project(desk: Desk) -> Problem[Session]:
    place = desk.item.detail("Place")
    desk.read_project()
    for item in desk.items:
        desk.call("get_task_description", task_id=item.id)
    goal = f"Which tasks in the project {desk.project.name} take place here: {place}? {NAMES}"
    return desk.answer(goal, contents(item for item in desk.items if item.detail("Place") == place))


def owner(desk: Desk) -> Problem[Session]:
    item = desk.item
    desk.read_all(until=item)
    return desk.answer(f'Which project has the task "{item.content}"? {NAME}', desk.project.name)


def search_detail(desk: Desk) -> Problem[Session]:
    item = desk.item
    desk.read_all(until=item)
    if desk.rng.random() < 0.5:
        return desk.answer(f'When is the task "{item.content}" due? {DATE}', str(item.due))
    desk.call("get_task_description", task_id=item.id)
    return desk.answer(
        f'Whom can I contact about the task "{item.content}"? Answer with the name.', item.detail("Contact")
    )


def count_priority(desk: Desk) -> Problem[Session]:
    level = desk.rng.randint(1, 4)
    desk.read_all()
    found = [item for item in desk.account.items if item.priority == level]
    return desk.answer(f"How many tasks in all projects have priority {level}? {NUMBER}", len(found))


def due_by(desk: Desk) -> Problem[Session] | None:
    day = desk.item.due
    found = [item for item in desk.account.items if item.due < day]
    if not 1 <= len(found) <= 4:
        return None
    desk.read_all()
    return desk.answer(f"Which tasks in all projects are due before {day}? {NAMES}", contents(found))


def count_overdue(desk: Desk) -> Problem[Session]:
    desk.read_date()
    desk.read_all()
    late = [item for item in desk.account.items if item.due < desk.account.today]
    goal = f"How many tasks in all projects are overdue, that is, were due before today? {NUMBER}"
    return desk.answer(goal, len(late))


def largest_project(desk: Desk) -> Problem[Session] | None:
    project = _only(list(desk.account.projects), max, lambda each: len(desk.account.of(each)))
    if project is None:
        return None
    desk.read_all()
    return desk.answer(f"Which project has the most tasks? {NAME}", project.name)


def next_days(desk: Desk) -> Problem[Session] | None:
    days = desk.rng.randint(3, 10)
    today = desk.account.today
    soon = [item for item in desk.account.items if today <= item.due <= today + timedelta(days)]
    item = _only(soon, max, lambda each: each.priority)
    if len(soon) < 2 or item is None:
        return None
    desk.read_date()
    desk.read_all()
    goal = (
        f"Of the tasks in all projects that are due today or within the next {days} days, which one has the highest "
        f"priority? {NAME}"
    )
    return desk.answer(goal, item.content)


def priority_duration(desk: Desk) -> Problem[Session] | None:
    level = desk.rng.randint(1, 4)
    found = [item for item in desk.account.items if item.priority == level]
    if not 2 <= len(found) <= 5:
        return None
    desk.read_all()
    desk.read_durations(found)
    goal = f"How long do all tasks of priority {level} in all projects take together? {MINUTES}"
    return desk.answer(goal, f"{sum(item.minutes for item in found)}(minute)")


def overdue_contacts(desk: Desk) -> Problem[Session] | None:
    late = [item for item in desk.account.items if item.due < desk.account.today]
    people = sorted({item.detail("Contact") for item in late})
    if not 2 <= len(late) == len(people) <= 4:
        return None
    desk.read_date()
    desk.read_all()
    for item in late:
        desk.call("get_task_description", task_id=item.id)
    goal = (
        "Whom must I contact about the tasks that are overdue, that is, were due before today, in all projects? "
        "Answer with a list of names."
    )
    return desk.answer(goal, people)


def _only(all_of: list[T], pick: Callable[..., T], key: Callable[[T], Any]) -> T | None:
    """The one that is picked, unless two are equal by the key."""
    if not all_of:
        return None
    found = pick(all_of, key=key)
    return found if sum(key(each) == key(found) for each in all_of) == 1 else None
