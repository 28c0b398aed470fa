"""Todo: ask about and change the projects and tasks of a to-do account."""

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse import GeneratedTasks, ToolEnv
from agentgym_rl.envs.tooluse.todo import changes, questions
from agentgym_rl.envs.tooluse.todo.draft import TodoDraft
from agentgym_rl.envs.tooluse.todo.official import OfficialTasks
from agentgym_rl.envs.tooluse.todo.tools import Session

TASKS: GeneratedTasks[Session] = GeneratedTasks("todo", TodoDraft, TodoDraft.texts.kinds(changes, questions))


class Todo(ToolEnv[Session]):
    """A to-do account with AgentGym's tools, which are those of Todoist's service (https://todoist.com).

    A question is solved by the right answer and an unchanged account; an operation by the changes that it asks for and
    no others, with any answer; some tasks ask for both.

    Args:
        style: wording of instruction and observations.
        official: AgentGym's ``todo.jsonl``, which then replaces the generated tasks.
        projects: AgentGym's ``projects.json``, the account these tasks start with.
        tasks: a file of tasks that take the place of these, :mod:`agentgym_rl.envs.tooluse.written`.

    Raises:
        ValueError: only one of the two paths is given, or a file is malformed.
    """

    name = "todo"

    def __init__(
        self,
        style: Style = "agentgym",
        official: str | None = None,
        projects: str | None = None,
        tasks: str | None = None,
    ) -> None:
        if (official is None) != (projects is None):
            raise ValueError("todo's options official (todo.jsonl) and projects (projects.json) go together: give both")
        own = TASKS if official is None or projects is None else OfficialTasks.read(official, projects)
        super().__init__(style, TodoDraft, own, tasks)
