"""Todo: ask about and change the projects and tasks of a to-do account."""

from __future__ import annotations

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse import ToolWorld
from agentgym_rl.envs.tooluse.todo import wording
from agentgym_rl.envs.tooluse.todo.official import Official
from agentgym_rl.envs.tooluse.todo.tasks import TASKS
from agentgym_rl.envs.tooluse.todo.tools import FUNCTIONS, Session


class Todo(ToolWorld[Session]):
    """A to-do account with AgentGym's tools, which are those of Todoist's service (https://todoist.com).

    A question is solved by the right answer and an account that nobody changed; an operation by the changes it asks
    for and no others, whatever ``finish`` is given; some tasks ask for both.

    Args:
        style: wording of instruction and observations.
        official: AgentGym's ``todo.jsonl``; the world's tasks are then those.
        projects: AgentGym's ``projects.json``, the account these tasks start with.

    Raises:
        ValueError: only one of the two paths is given, or a file is not what it should be.
    """

    name = "todo"

    def __init__(self, style: Style = "agentgym", official: str | None = None, projects: str | None = None) -> None:
        if (official is None) != (projects is None):
            raise ValueError("todo's options official (todo.jsonl) and projects (projects.json) go together: give both")
        super().__init__(
            style,
            functions=FUNCTIONS,
            tasks=TASKS if official is None or projects is None else Official.read(official, projects),
            about=wording.ABOUT,
            hint=wording.HINT,
            example=wording.EXAMPLE,
            max_turns=15,
            licence="Apache-2.0; accounts are drawn from lists written for this package, tools are facts of AgentGym",
        )
