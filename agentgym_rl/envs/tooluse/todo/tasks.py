"""The tasks of ours: which kinds there are, by the number of calls they take."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_rl.envs.tooluse import Drawn
from agentgym_rl.envs.tooluse.todo import changes, questions
from agentgym_rl.envs.tooluse.todo.draft import Kind, template
from agentgym_rl.envs.tooluse.todo.tools import Session

OFFICIAL = range(155)
"""AgentGym's task indices."""

KINDS: Mapping[range, tuple[Kind, ...]] = {
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
}
"""Kinds of tasks by the number of calls, ``finish`` among them, that their plans take."""

TASKS: Drawn[Session] = Drawn(
    name="todo",
    levels={calls: [template(kind) for kind in kinds] for calls, kinds in KINDS.items()},
    official=OFFICIAL,
    missing="give the options official and projects, paths of AgentGym's agentenv-tool/Toolusage/data/todo.jsonl and "
    "agentenv-tool/Toolusage/toolusage/utils/todo/projects.json",
)
