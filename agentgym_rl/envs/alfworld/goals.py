"""Other goals that a game can have, and those that commands reach in it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from agentgym_rl.envs.alfworld.catalogue import APPLIANCES, LAMP
from agentgym_rl.envs.alfworld.game import TYPES, Game, Goal, treatment
from agentgym_rl.envs.alfworld.house import House

SIMPLE, LIGHT = TYPES[:2]


@lru_cache(maxsize=64)
def goals(game: Game) -> tuple[Goal, ...]:
    """The goals that a game can have: about what lies in it, and not held at its start. In the words of its own."""
    start = House(game)
    return tuple(goal for goal in _goals(game) if not start.holds(goal))


def _goals(game: Game) -> Iterator[Goal]:
    """Nothing is cleaned, heated or cooled to be put where that is done, as in games that are drawn."""
    objects = dict.fromkeys(thing.type for thing, _ in game.places if thing.type != LAMP)
    receptacles = dict.fromkeys(receptacle.type for receptacle in game.receptacles)
    for object in objects:
        yield replace(game.goal, type=LIGHT, object=object, receptacle=LAMP)
        for type in TYPES:
            verb = treatment(type)
            places = [place for place in receptacles if verb is None or place != APPLIANCES[verb]]
            if type != LIGHT:
                yield from (replace(game.goal, type=type, object=object, receptacle=place) for place in places)


def reached(game: Game, commands: Sequence[str]) -> tuple[Goal, int] | None:
    """The last goal that commands reach, other than the game's own, and after how many of them it holds. One that asks
    for more than putting one thing away comes before the others."""
    house, turns = House(game), dict[Goal, int]()
    for turn, command in enumerate(commands, start=1):
        moved = {thing.type for thing in (house.act(command).thing, house.held) if thing is not None}
        for goal in goals(game):
            if goal.object in moved and goal not in turns and goal != game.goal and house.holds(goal):
                turns[goal] = turn
    if not turns:
        return None
    best = max(turns, key=lambda goal: (goal.type != SIMPLE, turns[goal]))
    return best, turns[best]
