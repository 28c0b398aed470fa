"""Kinds of tasks that ask: nothing may change and the answer must be right."""

from collections.abc import Iterable
from datetime import timedelta

from agentgym_rl.envs.tooluse import Problem
from agentgym_rl.envs.tooluse.todo.account import Item
from agentgym_rl.envs.tooluse.todo.draft import TodoDraft
from agentgym_rl.envs.tooluse.todo.tools import Session


def due_date(draft: TodoDraft) -> Problem[Session]:
    draft.read_project()
    return draft.ask("due_date", str(draft.item.due))


def priority(draft: TodoDraft) -> Problem[Session]:
    draft.read_project()
    return draft.ask("priority", draft.item.priority)


def duration(draft: TodoDraft) -> Problem[Session]:
    draft.read_project()
    draft.call("get_task_duration", task_id=draft.item.id)
    return draft.ask("duration", minutes([draft.item]))


def detail(draft: TodoDraft) -> Problem[Session]:
    item = draft.item
    label = draft.rng.choice(("Place", "Bring", "Contact"))
    draft.read_project()
    draft.call("get_task_description", task_id=item.id)
    return draft.ask(label, item.detail(label))


def size(draft: TodoDraft) -> Problem[Session]:
    draft.read_project()
    return draft.ask("size", len(draft.items))


def favorite(draft: TodoDraft) -> Problem[Session]:
    names = [project.name for project in draft.account.projects if project.is_favorite]
    draft.require(len(names) == 1)
    draft.call("get_projects")
    return draft.ask("favorite", names[0])


def extreme_date(draft: TodoDraft) -> Problem[Session]:
    word, pick = draft.rng.choice((("earliest", min), ("latest", max)))
    item = draft.only(draft.items, [each.due for each in draft.items], pick)
    draft.read_project()
    return draft.ask("extreme_date", item.content, word=word)


def urgent(draft: TodoDraft) -> Problem[Session]:
    item = draft.only(draft.items, [each.priority for each in draft.items])
    draft.read_project()
    return draft.ask("urgent", item.content)


def extreme_duration(draft: TodoDraft) -> Problem[Session]:
    word, pick = draft.rng.choice((("longest", max), ("shortest", min)))
    item = draft.only(draft.items, [each.minutes for each in draft.items], pick)
    draft.read_project()
    draft.call_each("get_task_duration", draft.items)
    return draft.ask("extreme_duration", item.content, word=word)


def total_duration(draft: TodoDraft) -> Problem[Session]:
    draft.read_project()
    draft.call_each("get_task_duration", draft.items)
    return draft.ask("total_duration", minutes(draft.items))


def overdue_in_project(draft: TodoDraft) -> Problem[Session]:
    late = [item for item in draft.items if item.due < draft.account.today]
    draft.call("get_user_current_date")
    draft.read_project()
    return draft.ask("overdue_in_project", contents(draft.require(late)))


def place_in_project(draft: TodoDraft) -> Problem[Session]:
    place = draft.item.detail("Place")
    draft.read_project()
    draft.call_each("get_task_description", draft.items)
    found = [item for item in draft.items if item.detail("Place") == place]
    return draft.ask("place_in_project", contents(found), place=place)


def owner(draft: TodoDraft) -> Problem[Session]:
    draft.read_all(until=draft.item)
    return draft.ask("owner", draft.project.name)


def search_detail(draft: TodoDraft) -> Problem[Session]:
    item = draft.item
    draft.read_all(until=item)
    if draft.rng.random() < 0.5:
        return draft.ask("search_date", str(item.due))
    draft.call("get_task_description", task_id=item.id)
    return draft.ask("search_contact", item.detail("Contact"))


def count_priority(draft: TodoDraft) -> Problem[Session]:
    level = draft.rng.randint(1, 4)
    draft.read_all()
    return draft.ask("count_priority", len(draft.of_priority(level)), level=level)


def due_by(draft: TodoDraft) -> Problem[Session]:
    day = draft.item.due
    due = [item for item in draft.account.items if item.due < day]
    draft.require(1 <= len(due) <= 4)
    draft.read_all()
    return draft.ask("due_by", contents(due), day=day)


def count_overdue(draft: TodoDraft) -> Problem[Session]:
    draft.call("get_user_current_date")
    draft.read_all()
    return draft.ask("count_overdue", len(draft.overdue))


def largest_project(draft: TodoDraft) -> Problem[Session]:
    projects = draft.account.projects
    largest = draft.only(projects, [len(draft.account.of(project)) for project in projects])
    draft.read_all()
    return draft.ask("largest_project", largest.name)


def next_days(draft: TodoDraft) -> Problem[Session]:
    days = draft.rng.randint(3, 10)
    today = draft.account.today
    soon = [item for item in draft.account.items if today <= item.due <= today + timedelta(days)]
    draft.require(len(soon) > 1)
    item = draft.only(soon, [each.priority for each in soon])
    draft.call("get_user_current_date")
    draft.read_all()
    return draft.ask("next_days", item.content, days=days)


def priority_duration(draft: TodoDraft) -> Problem[Session]:
    level = draft.rng.randint(1, 4)
    items = draft.of_priority(level)
    draft.require(2 <= len(items) <= 5)
    draft.read_all()
    draft.call_each("get_task_duration", items)
    return draft.ask("priority_duration", minutes(items), level=level)


def overdue_contacts(draft: TodoDraft) -> Problem[Session]:
    people = sorted({item.detail("Contact") for item in draft.overdue})
    draft.require(2 <= len(draft.overdue) == len(people) <= 4)
    draft.call("get_user_current_date")
    draft.read_all()
    draft.call_each("get_task_description", draft.overdue)
    return draft.ask("overdue_contacts", people)


def contents(items: Iterable[Item]) -> list[str]:
    """Names of tasks, sorted."""
    return sorted(item.content for item in items)


def minutes(items: Iterable[Item]) -> str:
    """The duration of tasks, as the tools write one."""
    return f"{sum(item.minutes for item in items)}(minute)"
