"""Movie: questions about films and people, answered by calls of a film database."""

from __future__ import annotations

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse.env import ToolEnv
from agentgym_rl.envs.tooluse.movie import questions
from agentgym_rl.envs.tooluse.movie.database import Database
from agentgym_rl.envs.tooluse.movie.draft import MovieDraft
from agentgym_rl.envs.tooluse.movie.tools import FUNCTIONS, TEXTS
from agentgym_rl.envs.tooluse.tasks import GeneratedTasks

TASKS: GeneratedTasks[Database] = GeneratedTasks(
    "movie",
    MovieDraft,
    {
        range(3, 4): (
            questions.fact,
            questions.staff,
            questions.role,
            questions.origin,
            questions.person,
            questions.genre,
            questions.films_of,
            questions.abroad,
            questions.profit,
            questions.keywords,
        ),
        range(4, 6): (
            questions.of_the_maker,
            questions.better_of,
            questions.other_role,
            questions.in_common,
            questions.film_of_role,
            questions.together,
            questions.directed_by_maker,
            questions.older,
        ),
        range(6, 10): (
            questions.better_of,
            questions.best_of_maker,
            questions.older,
            questions.career,
            questions.two_makers,
        ),
    },
)


class Movie(ToolEnv[Database]):
    """The tools of AgentGym's movie environment over a film database of this package, with generated questions.

    Args:
        style: wording of instruction and observations.
    """

    name = "movie"

    def __init__(self, style: Style = "agentgym") -> None:
        super().__init__(style, TEXTS, FUNCTIONS, TASKS)
