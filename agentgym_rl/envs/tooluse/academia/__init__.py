"""Academia: questions about papers and authors, answered by walks over two graphs."""

from __future__ import annotations

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse.academia import questions
from agentgym_rl.envs.tooluse.academia.draft import AcademiaDraft
from agentgym_rl.envs.tooluse.academia.tools import FUNCTIONS, TEXTS, Library
from agentgym_rl.envs.tooluse.env import ToolEnv
from agentgym_rl.envs.tooluse.tasks import GeneratedTasks

TASKS: GeneratedTasks[Library] = GeneratedTasks("academia", AcademiaDraft, TEXTS.kinds(questions))


class Academia(ToolEnv[Library]):
    """The tools of AgentGym's academia environment over graphs of this package, with generated questions.

    Args:
        style: wording of instruction and observations.
    """

    name = "academia"

    def __init__(self, style: Style = "agentgym") -> None:
        super().__init__(style, TEXTS, FUNCTIONS, TASKS)
