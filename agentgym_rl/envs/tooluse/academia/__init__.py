"""Academia: questions about papers and authors, answered by walks over two graphs."""

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse.academia import questions
from agentgym_rl.envs.tooluse.academia.draft import AcademiaDraft
from agentgym_rl.envs.tooluse.academia.tools import Library
from agentgym_rl.envs.tooluse.env import ToolEnv
from agentgym_rl.envs.tooluse.tasks import GeneratedTasks

TASKS: GeneratedTasks[Library] = GeneratedTasks("academia", AcademiaDraft, AcademiaDraft.texts.kinds(questions))


class Academia(ToolEnv[Library]):
    """The tools of AgentGym's academia environment over graphs of this package, with generated questions.

    Args:
        style: wording of instruction and observations.
        tasks: a file of tasks that take the place of these, :mod:`agentgym_rl.envs.tooluse.written`.

    Raises:
        ValueError: the file is malformed.
    """

    name = "academia"

    def __init__(self, style: Style = "agentgym", tasks: str | None = None) -> None:
        super().__init__(style, AcademiaDraft, TASKS, tasks)
