"""Solves a game whose layout is known."""

from collections.abc import Iterator
from itertools import permutations, product

from agentgym_rl.envs.alfworld.catalogue import APPLIANCES, LAMP
from agentgym_rl.envs.alfworld.game import Game, Name, openable, treatment


def plan(game: Game) -> list[str]:
    """Fewest commands that reach the goal; of equally few the first in order of the text."""
    return min(_plans(game), key=lambda commands: (len(commands), commands))


def _plans(game: Game) -> Iterator[list[str]]:
    goal = game.goal
    things = _of_type(game, goal.object)
    if goal.type == "look_at_obj_in_light":
        for (thing, place), (lamp, spot) in product(things, _of_type(game, LAMP)):
            walk = _Walk()
            walk.take(thing, place)
            walk.go(spot)
            yield [*walk.commands, f"use {lamp}"]
        return
    verb = treatment(goal.type)
    appliances = [None] if verb is None else [r for r in game.receptacles if r.type == APPLIANCES[verb]]
    targets = [receptacle for receptacle in game.receptacles if receptacle.type == goal.receptacle]
    for chosen, appliance, target in product(permutations(things, goal.count), appliances, targets):
        walk = _Walk()
        for thing, place in chosen:
            walk.take(thing, place)
            if appliance is not None:
                walk.go(appliance)
                walk.commands.append(f"{verb} {thing} with {appliance}")
            walk.reach(target)
            walk.commands.append(f"put {thing} in/on {target}")
        yield walk.commands


def _of_type(game: Game, type: str) -> list[tuple[Name, Name]]:
    return [(thing, place) for thing, place in game.places if thing.type == type]


class _Walk:
    """Commands so far, and what they have changed."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self._at: Name | None = None
        self._opened: set[Name] = set()

    def go(self, receptacle: Name) -> None:
        if receptacle != self._at:
            self.commands.append(f"go to {receptacle}")
            self._at = receptacle

    def reach(self, receptacle: Name) -> None:
        self.go(receptacle)
        if openable(receptacle) and receptacle not in self._opened:
            self.commands.append(f"open {receptacle}")
            self._opened.add(receptacle)

    def take(self, thing: Name, receptacle: Name) -> None:
        self.reach(receptacle)
        self.commands.append(f"take {thing} from {receptacle}")
