"""Kinds of tasks that change the account: its final state must be right, and where asked the answer, too."""

from __future__ import annotations

from datetime import timedelta

from agentgym_rl.envs.tooluse import Problem
from agentgym_rl.envs.tooluse.todo.account import Item
from agentgym_rl.envs.tooluse.todo.draft import Desk
from agentgym_rl.envs.tooluse.todo.questions import NUMBER
from agentgym_rl.envs.tooluse.todo.tools import Session

MOST = 4
"""Changes a task may need."""


def complete(desk: Desk) -> Problem[Session]:
    desk.read_project()
    desk.complete([desk.item])
    goal = f'Mark the task "{desk.item.content}" in the project {desk.project.name} as completed.'
    return desk.problem(goal, None, desk.account.completing(desk.item))


def delete(desk: Desk) -> Problem[Session]:
    desk.read_project()
    desk.delete([desk.item])
    goal = f'Delete the task "{desk.item.content}" from the project {desk.project.name}.'
    return desk.problem(goal, None, desk.account.without(desk.item))


def set_date(desk: Desk) -> Problem[Session]:
    moved = desk.item.later(desk.rng.randint(1, 30))
    desk.read_project()
    desk.move([moved])
    goal = f'Set the due date of the task "{moved.content}" in the project {desk.project.name} to {moved.due}.'
    return desk.problem(goal, None, desk.account.with_items(moved))


def make_favorite(desk: Desk) -> Problem[Session]:
    like = not desk.project.is_favorite
    desk.call("get_projects")
    desk.call("update_project", project_id=desk.project.id, is_favorite=str(like))
    goal = (
        f"Make the project {desk.project.name} a favorite."
        if like
        else f"The project {desk.project.name} is no longer a favorite of mine; please change that."
    )
    return desk.problem(goal, None, desk.account.with_favorite(desk.project, like))


def from_today(desk: Desk) -> Problem[Session] | None:
    days = desk.rng.randint(1, 6)
    due = desk.account.today + timedelta(days)
    if desk.item.due == due:
        return None
    moved = desk.item.later((due - desk.item.due).days)
    desk.read_date()
    desk.read_project()
    desk.move([moved])
    when = "tomorrow" if days == 1 else f"{days} days from today"
    goal = f'Set the due date of the task "{moved.content}" in the project {desk.project.name} to {when}.'
    return desk.problem(goal, None, desk.account.with_items(moved))


def shift(desk: Desk) -> Problem[Session]:
    days = desk.rng.choice((-3, -2, 2, 3, 4, 5, 7))
    moved = desk.item.later(days)
    desk.read_project()
    desk.move([moved])
    goal = (
        f'Move the due date of the task "{moved.content}" in the project {desk.project.name} {abs(days)} days '
        f"{'later' if days > 0 else 'earlier'}."
    )
    return desk.problem(goal, None, desk.account.with_items(moved))


def complete_priority(desk: Desk) -> Problem[Session] | None:
    level = desk.item.priority
    found = [item for item in desk.items if item.priority == level]
    if len(found) == len(desk.items):
        return None
    desk.read_project()
    desk.complete(found)
    goal = f"Mark all tasks of priority {level} in the project {desk.project.name} as completed."
    return desk.problem(goal, None, desk.account.completing(*found))


def change_anywhere(desk: Desk) -> Problem[Session]:
    item = desk.item
    desk.read_all(until=item)
    if desk.rng.random() < 0.5:
        desk.complete([item])
        goal, after = f'Mark the task "{item.content}" as completed.', desk.account.completing(item)
    else:
        moved = item.later(desk.rng.randint(2, 14))
        desk.move([moved])
        goal, after = f'Postpone the task "{item.content}" to {moved.due}.', desk.account.with_items(moved)
    return desk.problem(goal, None, after)


def favorite_of_task(desk: Desk) -> Problem[Session] | None:
    if desk.project.is_favorite:
        return None
    desk.read_all(until=desk.item)
    desk.call("update_project", project_id=desk.project.id, is_favorite="True")
    goal = f'Make the project that has the task "{desk.item.content}" a favorite.'
    return desk.problem(goal, None, desk.account.with_favorite(desk.project))


def shift_project(desk: Desk) -> Problem[Session] | None:
    spared = desk.item.priority
    days = desk.rng.randint(2, 9)
    moved = [item.later(days) for item in desk.items if item.priority != spared]
    if len(moved) < 2:
        return None
    desk.read_project()
    desk.move(moved)
    goal = (
        f"Move the due dates of all tasks in the project {desk.project.name} {days} days later, except those of "
        f"priority {spared}."
    )
    return desk.problem(goal, None, desk.account.with_items(*moved))


def short_ones(desk: Desk) -> Problem[Session] | None:
    limit = desk.item.minutes
    found = [item for item in desk.items if item.minutes < limit]
    if not found:
        return None
    desk.read_project()
    desk.read_durations(desk.items)
    desk.complete(found)
    goal = f"Mark all tasks in the project {desk.project.name} that take less than {limit} minutes as completed."
    return desk.problem(goal, None, desk.account.completing(*found))


def _overdue(desk: Desk) -> list[Item]:
    return [item for item in desk.account.items if item.due < desk.account.today]


def clear_overdue(desk: Desk) -> Problem[Session] | None:
    late = _overdue(desk)
    if not 1 <= len(late) <= MOST:
        return None
    desk.read_date()
    desk.read_all()
    desk.delete(late)
    goal = "Delete all tasks in all projects that are overdue, that is, were due before today."
    return desk.problem(goal, None, desk.account.without(*late))


def move_overdue(desk: Desk) -> Problem[Session] | None:
    late = _overdue(desk)
    if not 1 <= len(late) <= MOST:
        return None
    due = desk.account.today + timedelta(1)
    moved = [item.later((due - item.due).days) for item in late]
    desk.read_date()
    desk.read_all()
    desk.move(moved)
    goal = (
        "Some tasks are overdue, that is, were due before today. Set the due dates of all of them, in all projects, "
        "to tomorrow."
    )
    return desk.problem(goal, None, desk.account.with_items(*moved))


def complete_everywhere(desk: Desk) -> Problem[Session] | None:
    level = desk.rng.randint(1, 4)
    found = [item for item in desk.account.items if item.priority == level]
    if not 1 <= len(found) <= MOST:
        return None
    desk.read_all()
    desk.complete(found)
    goal = f"Mark all tasks of priority {level} in all projects as completed."
    return desk.problem(goal, None, desk.account.completing(*found))


def delete_then_count(desk: Desk) -> Problem[Session] | None:
    day = desk.item.due
    gone = [item for item in desk.items if item.due < day]
    if not gone:
        return None
    desk.read_all()
    desk.delete(gone)
    after = desk.account.without(*gone)
    goal = (
        f"Delete all tasks in the project {desk.project.name} that are due before {day}. Then tell me how many tasks "
        f"are left in all projects. {NUMBER}"
    )
    return desk.problem(goal, len(after.items), after)


def complete_then_total(desk: Desk) -> Problem[Session] | None:
    level = desk.item.priority
    done = [item for item in desk.items if item.priority == level]
    rest = [item for item in desk.items if item.priority != level]
    if not rest:
        return None
    desk.read_project()
    desk.complete(done)
    desk.read_durations(rest)
    goal = (
        f"Mark all tasks of priority {level} in the project {desk.project.name} as completed. Then tell me how many "
        f"minutes the other tasks of that project take together. {NUMBER}"
    )
    return desk.problem(goal, sum(item.minutes for item in rest), desk.account.completing(*done))
