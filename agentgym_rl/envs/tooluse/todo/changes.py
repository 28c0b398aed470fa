"""Kinds of tasks that change the account: its final state must be right, and where asked the answer, too."""

from datetime import timedelta

from agentgym_rl.envs.tooluse import Problem
from agentgym_rl.envs.tooluse.todo.draft import TodoDraft
from agentgym_rl.envs.tooluse.todo.tools import Session

MAX_CHANGES = 4


def complete(draft: TodoDraft) -> Problem[Session]:
    draft.read_project()
    draft.call("complete_task", task_id=draft.item.id)
    return draft.change("complete")


def delete(draft: TodoDraft) -> Problem[Session]:
    draft.read_project()
    draft.call("delete_task", task_id=draft.item.id)
    return draft.change("delete")


def set_date(draft: TodoDraft) -> Problem[Session]:
    moved = draft.item.later(draft.rng.randint(1, 30))
    draft.read_project()
    draft.move([moved])
    return draft.change("set_date", when=moved.due)


def make_favorite(draft: TodoDraft) -> Problem[Session]:
    like = not draft.project.is_favorite
    draft.call("get_projects")
    draft.call("update_project", project_id=draft.project.id, is_favorite=str(like))
    return draft.change("make_favorite" if like else "drop_favorite")


def from_today(draft: TodoDraft) -> Problem[Session]:
    days = draft.rng.randint(1, 6)
    due = draft.account.today + timedelta(days)
    draft.require(draft.item.due != due)
    moved = draft.item.later((due - draft.item.due).days)
    draft.call("get_user_current_date")
    draft.read_project()
    draft.move([moved])
    return draft.change("set_date", when="tomorrow" if days == 1 else f"{days} days from today")


def shift(draft: TodoDraft) -> Problem[Session]:
    days = draft.rng.choice((-3, -2, 2, 3, 4, 5, 7))
    moved = draft.item.later(days)
    draft.read_project()
    draft.move([moved])
    return draft.change("shift", days=abs(days), side="later" if days > 0 else "earlier")


def complete_priority(draft: TodoDraft) -> Problem[Session]:
    level = draft.item.priority
    chosen = [item for item in draft.items if item.priority == level]
    draft.require(len(chosen) < len(draft.items))
    draft.read_project()
    draft.call_each("complete_task", chosen)
    return draft.change("complete_priority", level=level)


def change_anywhere(draft: TodoDraft) -> Problem[Session]:
    item = draft.item
    draft.read_all(until=item)
    if draft.rng.random() < 0.5:
        draft.call("complete_task", task_id=item.id)
        return draft.change("complete_anywhere")
    moved = item.later(draft.rng.randint(2, 14))
    draft.move([moved])
    return draft.change("postpone_anywhere", when=moved.due)


def favorite_of_task(draft: TodoDraft) -> Problem[Session]:
    draft.require(not draft.project.is_favorite)
    draft.read_all(until=draft.item)
    draft.call("update_project", project_id=draft.project.id, is_favorite="True")
    return draft.change("favorite_of_task")


def shift_project(draft: TodoDraft) -> Problem[Session]:
    spared = draft.item.priority
    days = draft.rng.randint(2, 9)
    moved = [item.later(days) for item in draft.items if item.priority != spared]
    draft.require(len(moved) > 1)
    draft.read_project()
    draft.move(moved)
    return draft.change("shift_project", days=days, spared=spared)


def short_ones(draft: TodoDraft) -> Problem[Session]:
    limit = draft.item.minutes
    found = draft.require([item for item in draft.items if item.minutes < limit])
    draft.read_project()
    draft.call_each("get_task_duration", draft.items)
    draft.call_each("complete_task", found)
    return draft.change("short_ones", limit=limit)


def clear_overdue(draft: TodoDraft) -> Problem[Session]:
    draft.require(1 <= len(draft.overdue) <= MAX_CHANGES)
    draft.call("get_user_current_date")
    draft.read_all()
    draft.call_each("delete_task", draft.overdue)
    return draft.change("clear_overdue")


def move_overdue(draft: TodoDraft) -> Problem[Session]:
    draft.require(1 <= len(draft.overdue) <= MAX_CHANGES)
    due = draft.account.today + timedelta(1)
    draft.call("get_user_current_date")
    draft.read_all()
    draft.move(item.later((due - item.due).days) for item in draft.overdue)
    return draft.change("move_overdue")


def complete_everywhere(draft: TodoDraft) -> Problem[Session]:
    level = draft.rng.randint(1, 4)
    items = draft.of_priority(level)
    draft.require(1 <= len(items) <= MAX_CHANGES)
    draft.read_all()
    draft.call_each("complete_task", items)
    return draft.change("complete_everywhere", level=level)


def delete_then_count(draft: TodoDraft) -> Problem[Session]:
    day = draft.item.due
    gone = draft.require([item for item in draft.items if item.due < day])
    draft.read_all()
    draft.call_each("delete_task", gone)
    return draft.ask("delete_then_count", len(draft.state.account.items), day=day)


def complete_then_total(draft: TodoDraft) -> Problem[Session]:
    level = draft.item.priority
    done = [item for item in draft.items if item.priority == level]
    rest = draft.require([item for item in draft.items if item.priority != level])
    draft.read_project()
    draft.call_each("complete_task", done)
    draft.call_each("get_task_duration", rest)
    return draft.ask("complete_then_total", sum(item.minutes for item in rest), level=level)
