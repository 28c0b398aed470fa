"""Movie: questions about films and people, answered by calls of a film database."""

from __future__ import annotations

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse.env import ToolWorld
from agentgym_rl.envs.tooluse.movie import one_film, several
from agentgym_rl.envs.tooluse.movie.database import Database
from agentgym_rl.envs.tooluse.movie.tools import FUNCTIONS
from agentgym_rl.envs.tooluse.tasks import Drawn

TASKS: Drawn[Database] = Drawn(
    name="movie",
    levels={
        range(3, 4): (
            one_film.fact,
            one_film.staff,
            one_film.role,
            one_film.origin,
            one_film.person,
            one_film.genre,
            one_film.films_of,
            one_film.abroad,
            one_film.profit,
            one_film.keywords,
        ),
        range(4, 6): (
            several.of_the_maker,
            several.better_of,
            several.other_role,
            several.in_common,
            several.film_of_role,
            several.together,
            several.directed_by_maker,
            several.older,
        ),
        range(6, 10): (
            several.better_of,
            several.best_of_maker,
            several.older,
            several.career,
            several.two_makers,
        ),
    },
    official=range(238),
    missing="their answers are in The Movie Database; play them on AgentGym's own server through host=remote",
)

ABOUT = "You answer a question about films and the people who made them."

HINT = (
    "Take ids from get_search_movie and get_search_person, never from memory, and facts from the tools only: the films "
    "and people of this database are not those you know."
)

EXAMPLE = """\
Goal: Who plays Captain Brook in the film "Lake Weather"? Answer with the name of the person.
Thought: The cast is listed by id, so I look for the film first.

Action: get_search_movie with Action Input: {"movie_name": "Lake Weather"}
Observation: [{'id': 70311, 'overview': 'A story about hope and snow.', 'title': 'Lake Weather'}]
Thought: Now the actors of film 70311.

Action: get_movie_cast with Action Input: {"movie_id": "70311"}
Observation: {'cast': [{'id': 5120, 'name': 'Ann Lee', 'character': 'Doctor May'}, \
{'id': 9943, 'name': 'Tim Dow', 'character': 'Captain Brook'}]}
Thought: It is Tim Dow who plays Captain Brook.

Action: finish with Action Input: {"answer": "Tim Dow"}
Observation: Tim Dow"""


class Movie(ToolWorld[Database]):
    """The tools of AgentGym's movie world over a film database that is made up, with questions of our own.

    Args:
        style: wording of instruction and observations.
    """

    name = "movie"

    def __init__(self, style: Style = "agentgym") -> None:
        super().__init__(
            style,
            functions=FUNCTIONS,
            tasks=TASKS,
            about=ABOUT,
            hint=HINT,
            example=EXAMPLE,
            max_turns=15,
            licence="Apache-2.0; names of tools and shapes of results are facts of AgentGym and The Movie Database",
        )
