"""The rules: what can be done in a game, and what it changes."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from agentgym_rl.envs.alfworld.catalogue import APPLIANCES, HANDLED, LAMP, PLACES
from agentgym_rl.envs.alfworld.game import Game, Goal, Name, openable, treatment

_NAME = re.compile(r"(\w+) (\d+)")
_PUT = re.compile(r"(?:put (.+) (?:in/on|into|in|on)|move (.+) to) (.+)")

NOTHING = "nothing"
"""The verb of what could not be done."""


@dataclass(frozen=True, slots=True)
class Event:
    """What an action did: the verb of its command, the object and the receptacle it was about."""

    verb: str
    thing: Name | None = None
    receptacle: Name | None = None


def canonical(action: str) -> str:
    """An action in the words :meth:`House.possible` uses.

    Case and spaces do not matter; ``move X to Y`` and ``put X in Y`` are ``put X in/on Y``; ``toggle X`` is ``use X``.
    """
    command = " ".join(action.lower().split())
    if command.startswith("toggle "):
        return f"use {command.removeprefix('toggle ')}"
    if match := _PUT.fullmatch(command):
        return f"put {match[1] or match[2]} in/on {match[3]}"
    return command


class House:
    """A game under way. The agent starts in the middle of the room with empty hands; all doors are closed."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.at: Name | None = None
        """The receptacle the agent stands at."""
        self.held: Name | None = None
        self.opened: set[Name] = set()
        self.lit: set[Name] = set()
        self.done: dict[Name, set[str]] = {}
        """By object: ``clean``, and one of ``heat`` and ``cool``."""
        self._inside: dict[Name, set[Name]] = {receptacle: set() for receptacle in game.receptacles}
        for thing, receptacle in game.places:
            self._inside[receptacle].add(thing)

    def contents(self, receptacle: Name) -> list[Name]:
        """What is in a receptacle, open or not: by type, of one type the highest number first, as ALFWorld lists."""
        return sorted(self._inside[receptacle], key=lambda name: (name.type, -name.number))

    def accessible(self, receptacle: Name) -> bool:
        """Whether hands and eyes reach into a receptacle."""
        return not openable(receptacle) or receptacle in self.opened

    def possible(self) -> tuple[str, ...]:
        """The commands that would do something now, sorted."""
        return tuple(sorted(self._possible()))

    def act(self, action: str) -> Event:
        """Carry out an action; what is not :meth:`possible` changes nothing and is an event :data:`NOTHING`."""
        command = canonical(action)
        if command not in self._possible():
            return Event(NOTHING)
        match command.split()[0], [Name(kind, int(number)) for kind, number in _NAME.findall(command)]:
            case "go", [place]:
                self.at = place
                return Event("go", receptacle=place)
            case "open", [place]:
                self.opened.add(place)
                return Event("open", receptacle=place)
            case "close", [place]:
                self.opened.discard(place)
                return Event("close", receptacle=place)
            case "take", [thing, place]:
                self.held = thing
                self._inside[place].discard(thing)
                return Event("take", thing, place)
            case "put", [thing, place]:
                self.held = None
                self._inside[place].add(thing)
                return Event("put", thing, place)
            case "use", [lamp]:
                self.lit.add(lamp)
                return Event("use", lamp)
            case ("clean" | "heat" | "cool") as verb, [thing, place]:
                marks = self.done.setdefault(thing, set())
                if verb != "clean":
                    marks -= {"heat", "cool"}
                marks.add(verb)
                return Event(verb, thing, place)
            case "examine", [name]:
                return Event("examine", receptacle=name) if name == self.at else Event("examine", name)
            case verb, []:
                return Event(verb)
        raise AssertionError(f"{command!r} is listed as possible and has no rule")

    def solved(self) -> bool:
        """Whether the game's goal holds now."""
        return self.holds(self.game.goal)

    def holds(self, goal: Goal) -> bool:
        """Whether a goal holds now."""
        if goal.type == "look_at_obj_in_light":
            holding = self.held is not None and self.held.type == goal.object
            return holding and self.at is not None and bool(self.lit & self._inside[self.at])
        needed = treatment(goal.type)

        def wanted(thing: Name) -> bool:
            return thing.type == goal.object and (needed is None or needed in self.done.get(thing, ()))

        targets = (things for receptacle, things in self._inside.items() if receptacle.type == goal.receptacle)
        return any(sum(map(wanted, things)) >= goal.count for things in targets)

    def _possible(self) -> Iterator[str]:
        yield from ("inventory", "look")
        yield from (f"go to {receptacle}" for receptacle in self.game.receptacles if receptacle != self.at)
        if self.held is not None:
            yield f"examine {self.held}"
        if self.at is None:
            return
        at = self.at
        yield f"examine {at}"
        yield from (f"use {thing}" for thing in self._inside[at] if thing.type == LAMP)
        if openable(at):
            yield f"{'close' if at in self.opened else 'open'} {at}"
        if self.held is not None:
            for verb, appliance in APPLIANCES.items():
                if at.type == appliance and self.held.type in HANDLED[verb]:
                    yield f"{verb} {self.held} with {at}"
        if not self.accessible(at):
            return
        if self.held is None:
            yield from (f"take {thing} from {at}" for thing in self._inside[at] if thing.type != LAMP)
        elif at.type in PLACES[self.game.room].get(self.held.type, ()):
            yield f"put {self.held} in/on {at}"


def counted(types: list[str]) -> tuple[Name, ...]:
    """Names for a list of types: each type numbered from 1, in order of type and number."""
    return tuple(Name(kind, number) for kind, count in sorted(Counter(types).items()) for number in range(1, count + 1))
