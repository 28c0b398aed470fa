"""A question in the making: the calls that lead to films, people and credits."""

from __future__ import annotations

from random import Random
from typing import Any

from agentgym_rl.envs.tooluse.draft import Draft
from agentgym_rl.envs.tooluse.movie.database import Database, Film, Person, database
from agentgym_rl.envs.tooluse.movie.tools import BY_TOOL
from agentgym_rl.envs.tooluse.problem import Problem

Drawn = Problem[Database] | None

NUMBER = "Answer with a number."
YES_NO = "Answer Yes or No."
WHEN = "Answer with a date YYYY-MM-DD."
TITLE = "Answer with the title of the film."
NAME = "Answer with the name of the person."
LIST = "Answer with a list."


class Lookup:
    """A random film or person at hand, and the plan of calls so far."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.draft: Draft[Database] = Draft(BY_TOOL, database)

    def film(self) -> Film:
        return self.films(1)[0]

    def films(self, number: int) -> list[Film]:
        return self.rng.sample(tuple(database().films.values()), number)

    def actor(self) -> Person:
        """Anyone with a role."""
        return self.rng.choice(self.film().cast)[0]

    def find(self, film: Film) -> str:
        """The id of a film, looked up."""
        return str(self.draft.call("get_search_movie", movie_name=film.title)[0]["id"])

    def find_person(self, person: Person) -> str:
        """The id of a person, looked up."""
        return str(self.draft.call("get_search_person", person_name=person.name)[0]["id"])

    def about(self, topic: str, movie_id: str) -> Any:
        """The result of ``get_movie_<topic>``, without its frame."""
        found = self.draft.call(f"get_movie_{topic}", movie_id=movie_id)
        return found.get(topic, found)

    def who(self, topic: str, person_id: str) -> Any:
        """The result of ``get_person_<topic>``, without its frame."""
        found = self.draft.call(f"get_person_{topic}", person_id=person_id)
        return found.get(topic, found)

    def director(self, movie_id: str) -> str:
        """The id of a film's director, looked up."""
        return str(next(each["id"] for each in self.about("crew", movie_id) if each["job"] == "Director"))

    def player(self, movie_id: str, character: str) -> str:
        """The id of who plays a character, looked up."""
        return str(next(each["id"] for each in self.about("cast", movie_id) if each["character"] == character))

    def ask(self, goal: str, answer: Any, tolerance: float = 0.0) -> Problem[Database]:
        return self.draft.ask(goal, answer, tolerance)


def yes(answer: bool) -> str:
    return "Yes" if answer else "No"
