"""Todo: ask about and change the projects and tasks of a to-do account."""

from __future__ import annotations

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse import GeneratedTasks, ToolEnv
from agentgym_rl.envs.tooluse.todo import changes, questions
from agentgym_rl.envs.tooluse.todo.draft import TodoDraft
from agentgym_rl.envs.tooluse.todo.official import OfficialTasks
from agentgym_rl.envs.tooluse.todo.tools import FUNCTIONS, TEXTS, Session

TASKS: GeneratedTasks[Session] = GeneratedTasks(
    "todo",
    TodoDraft,
    {
        range(2, 5): (
            questions.due_date,
            changes.complete,
            questions.priority,
            changes.set_date,
            questions.duration,
            changes.delete,
            questions.detail,
            changes.make_favorite,
            questions.size,
            changes.shift,
            questions.favorite,
            questions.extreme_date,
            questions.urgent,
            questions.overdue_in_project,
        ),
        range(5, 7): (
            questions.extreme_duration,
            changes.from_today,
            questions.total_duration,
            changes.complete_priority,
            questions.place_in_project,
            changes.shift_project,
            questions.owner,
            changes.change_anywhere,
            questions.search_detail,
            changes.favorite_of_task,
            questions.count_priority,
            questions.due_by,
            questions.largest_project,
        ),
        range(7, 9): (
            questions.count_overdue,
            changes.short_ones,
            changes.complete_everywhere,
            questions.next_days,
            changes.clear_overdue,
            questions.priority_duration,
            changes.move_overdue,
            changes.complete_then_total,
            changes.delete_then_count,
            changes.change_anywhere,
        ),
        range(9, 13): (
            changes.clear_overdue,
            questions.priority_duration,
            changes.move_overdue,
            questions.overdue_contacts,
            changes.complete_everywhere,
            changes.delete_then_count,
        ),
    },
)


class Todo(ToolEnv[Session]):
    """A to-do account with AgentGym's tools, which are those of Todoist's service (https://todoist.com).

    A question is solved by the right answer and an unchanged account; an operation by the changes that it asks for and
    no others, with any answer; some tasks ask for both.

    Args:
        style: wording of instruction and observations.
        official: AgentGym's ``todo.jsonl``, which then replaces the generated tasks.
        projects: AgentGym's ``projects.json``, the account these tasks start with.

    Raises:
        ValueError: only one of the two paths is given, or a file is malformed.
    """

    name = "todo"

    def __init__(self, style: Style = "agentgym", official: str | None = None, projects: str | None = None) -> None:
        if (official is None) != (projects is None):
            raise ValueError("todo's options official (todo.jsonl) and projects (projects.json) go together: give both")
        tasks = TASKS if official is None or projects is None else OfficialTasks.read(official, projects)
        super().__init__(style, TEXTS, FUNCTIONS, tasks)
