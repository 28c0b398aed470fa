"""A game as it is laid out before the first action."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from agentgym_rl.envs.alfworld.catalogue import OPENABLE
from agentgym_rl.envs.splits import fingerprint

TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""ALFWorld's task types."""


class Name(NamedTuple):
    """A thing or receptacle: its type and its number, from 1."""

    type: str
    number: int

    def __str__(self) -> str:
        return f"{self.type} {self.number}"


def treatment(type: str) -> str | None:
    """What a task type asks to be done with the object first: ``clean``, ``heat``, ``cool`` or nothing."""
    word = type.split("_")[1]
    return word if word in ("clean", "heat", "cool") else None


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be done: a type of task, the type of object, and of the receptacle (of the lamp)."""

    type: str
    object: str
    receptacle: str
    wording: int = 0
    """Which of the two sentences for its type says it."""

    @property
    def count(self) -> int:
        """How many objects must lie in one receptacle."""
        return 2 if self.type == "pick_two_obj_and_place" else 1


@dataclass(frozen=True)
class Game:
    """Room, receptacles, what lies where, and the goal.

    ``receptacles`` are in order of type and number; ``places`` says in which of them each object is.
    """

    room: str
    receptacles: tuple[Name, ...]
    places: tuple[tuple[Name, Name], ...]
    goal: Goal

    @cached_property
    def fingerprint(self) -> str:
        """First 8 hex digits of the SHA-256 of the whole layout, without the choice of sentence."""
        goal = (self.goal.type, self.goal.object, self.goal.receptacle)
        facts = [self.room, *goal, *map(str, self.receptacles), *(f"{thing}@{place}" for thing, place in self.places)]
        return fingerprint("\n".join(facts), 8)


def openable(receptacle: Name) -> bool:
    """Whether a receptacle has a door, closed at the start."""
    return receptacle.type in OPENABLE
