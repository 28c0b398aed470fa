"""Movie: questions about films and people, answered by calls of a film database."""

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse.env import ToolEnv
from agentgym_rl.envs.tooluse.movie import questions
from agentgym_rl.envs.tooluse.movie.draft import MovieDraft
from agentgym_rl.envs.tooluse.movie.tools import Database
from agentgym_rl.envs.tooluse.tasks import GeneratedTasks

TASKS: GeneratedTasks[Database] = GeneratedTasks("movie", MovieDraft, MovieDraft.texts.kinds(questions))


class Movie(ToolEnv[Database]):
    """The tools of AgentGym's movie environment over a film database of this package, with generated questions.

    Args:
        style: wording of instruction and observations.
        tasks: a file of tasks that take the place of these, :mod:`agentgym_rl.envs.tooluse.written`.

    Raises:
        ValueError: the file is malformed.
    """

    name = "movie"

    def __init__(self, style: Style = "agentgym", tasks: str | None = None) -> None:
        super().__init__(style, MovieDraft, TASKS, tasks)
