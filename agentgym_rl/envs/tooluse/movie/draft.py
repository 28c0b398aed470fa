"""Drafts of questions about films: the calls that look up films, people and credits."""

from collections.abc import Callable, Sequence
from typing import Any

from agentgym_rl.envs.tooluse.movie.database import database
from agentgym_rl.envs.tooluse.movie.tools import FUNCTIONS, TEXTS, Database, Film, Person
from agentgym_rl.envs.tooluse.problem import Draft, Problem, T

ACCOUNTS = {"imdb_id": "IMDb", "facebook_id": "Facebook", "instagram_id": "Instagram", "twitter_id": "Twitter"}


class MovieDraft(Draft[Database]):
    """Random films and people, and the plan of calls so far."""

    texts = TEXTS
    functions = FUNCTIONS

    def start(self) -> Database:
        return database()

    def only(self, items: Sequence[T], values: Sequence[Any], pick: Callable[..., Any] = max) -> T:
        """As for all drafts; no two values may be equal."""
        self.require(len(set(values)) == len(values))
        return super().only(items, values, pick)

    def film(self) -> Film:
        return self.films(1)[0]

    def films(self, number: int) -> list[Film]:
        return self.rng.sample(tuple(database().films.values()), number)

    def actor(self) -> Person:
        """Anyone with a role."""
        return self.rng.choice(self.film().cast)[0]

    def find(self, film: Film) -> str:
        """The id of a film, looked up."""
        return str(self.call("get_search_movie", movie_name=film.title)[0]["id"])

    def find_person(self, person: Person) -> str:
        """The id of a person, looked up."""
        return str(self.call("get_search_person", person_name=person.name)[0]["id"])

    def about(self, topic: str, film: Film | str) -> Any:
        """The result of ``get_movie_<topic>`` without its frame; for a film, its id is looked up first."""
        movie_id = self.find(film) if isinstance(film, Film) else film
        answer = self.call(f"get_movie_{topic}", movie_id=movie_id)
        return answer.get(topic, answer)

    def who(self, topic: str, person: Person | str) -> Any:
        """The result of ``get_person_<topic>`` without its frame; for a person, the id is looked up first."""
        person_id = self.find_person(person) if isinstance(person, Person) else person
        answer = self.call(f"get_person_{topic}", person_id=person_id)
        return answer.get(topic, answer)

    def director(self, film: Film | str) -> str:
        """The id of a film's director, looked up."""
        return str(next(each["id"] for each in self.about("crew", film) if each["job"] == "Director"))

    def actor_of(self, film: Film | str, character: str) -> str:
        """The id of the actor of a character, looked up."""
        return str(next(each["id"] for each in self.about("cast", film) if each["character"] == character))

    def directed(self, person: Person | str) -> list[Any]:
        """The credits of a person as director, looked up."""
        return [each for each in self.who("crew", person) if each["job"] == "Director"]

    def ask_account(self, person: Person | str, who: str) -> Problem[Database]:
        """A question for an account of a person who is called ``who``."""
        account = self.rng.choice(list(ACCOUNTS))
        value = self.require(self.who("external_ids", person)[account])
        return self.ask("account", value, account=ACCOUNTS[account], who=who)

    def ask_birth(self, person: Person | str, who: str) -> Problem[Database]:
        """A question for day or place of birth of a person who is called ``who``."""
        details = self.who("details", person)
        if self.rng.random() < 0.5:
            return self.ask("birthday", details["birthday"], who=who)
        return self.ask("birthplace", details["place_of_birth"], who=who)
