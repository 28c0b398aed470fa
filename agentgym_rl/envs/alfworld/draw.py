"""Draws games: a room, what stands in it, what lies where, and something to do."""

from collections import Counter
from collections.abc import Mapping
from random import Random

from agentgym_rl.envs.alfworld.catalogue import APPLIANCES, HANDLED, LAMP, LAMP_PLACES, PLACES, ROOMS
from agentgym_rl.envs.alfworld.game import Game, Goal, Name, treatment
from agentgym_rl.envs.alfworld.house import counted

SIZES: Mapping[str, range] = {"small": range(3, 6), "medium": range(8, 13), "large": range(15, 21)}
"""How many receptacles a room has."""

CLUTTER: Mapping[str, range] = {"small": range(1, 4), "medium": range(6, 11), "large": range(12, 19)}
"""How many objects there are besides those of the goal's type."""

SPARE = 0.3
"""How often a room that is not small has one more object of the goal's type than needed."""

_ROOMS_OF: Mapping[str, tuple[str, ...]] = {
    "pick_and_place_simple": tuple(ROOMS),
    "look_at_obj_in_light": ("bedroom", "livingroom"),
    "pick_clean_then_place_in_recep": ("kitchen", "bathroom"),
    "pick_heat_then_place_in_recep": ("kitchen",),
    "pick_cool_then_place_in_recep": ("kitchen",),
    "pick_two_obj_and_place": tuple(ROOMS),
}


def draw(type: str, size: str, rng: Random) -> Game:
    """A random game. No object of the goal's type starts in a receptacle of the goal's type."""
    room = rng.choice(_ROOMS_OF[type])
    goal = _goal(type, room, rng)
    places = PLACES[room]
    receptacles = _receptacles(goal, room, rng.choice(SIZES[size]), rng)

    def put(thing: str) -> tuple[str, Name]:
        fitting = [place for place in receptacles if place.type in places[thing]]
        return thing, rng.choice([place for place in fitting if (thing, place.type) != (goal.object, goal.receptacle)])

    spare = size != "small" and rng.random() < SPARE
    placed = [put(goal.object) for _ in range(goal.count + spare)]
    others = [thing for thing in places if thing != goal.object and {r.type for r in receptacles} & {*places[thing]}]
    placed += [put(thing) for thing in rng.choices(others, k=rng.choice(CLUTTER[size]))]
    if goal.receptacle == LAMP:
        placed.append((LAMP, rng.choice([place for place in receptacles if place.type in LAMP_PLACES])))
    rng.shuffle(placed)
    numbers: Counter[str] = Counter()
    numbered = []
    for thing, place in placed:
        numbers[thing] += 1
        numbered.append((Name(thing, numbers[thing]), place))
    return Game(room, receptacles, tuple(sorted(numbered)), goal)


def _goal(type: str, room: str, rng: Random) -> Goal:
    needed = treatment(type)
    places = PLACES[room]
    thing = rng.choice(
        [thing for thing in places if len(places[thing]) > 1 and (needed is None or thing in HANDLED[needed])]
    )
    if type == "look_at_obj_in_light":
        receptacle = LAMP
    else:
        done_at = None if needed is None else APPLIANCES[needed]
        receptacle = rng.choice([place for place in places[thing] if place != done_at])
    return Goal(type, thing, receptacle, rng.randrange(2))


def _receptacles(goal: Goal, room: str, count: int, rng: Random) -> tuple[Name, ...]:
    """What the goal needs, and others of the room up to a count."""
    slots = Counter(ROOMS[room])
    needed = [rng.choice([place for place in PLACES[room][goal.object] if place != goal.receptacle])]
    if goal.receptacle == LAMP:
        needed.append(rng.choice([place for place in LAMP_PLACES if place in slots]))
    else:
        needed.append(goal.receptacle)
    if (handling := treatment(goal.type)) is not None:
        needed.append(APPLIANCES[handling])
    types = list(dict.fromkeys(needed))
    slots.subtract(types)
    return counted(types + rng.sample(list(slots.elements()), count - len(types)))
