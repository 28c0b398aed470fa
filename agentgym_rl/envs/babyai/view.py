"""The objects in view, named and numbered."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_rl.envs.babyai.geometry import Cell, offset
from agentgym_rl.envs.babyai.level import Level

_VIEW_DEPTH = 7
_NO_OBJECT = ("wall", "floor")


@dataclass(frozen=True, slots=True)
class Sight:
    """One object in view.

    ``label`` is its name with its number among the objects of that name, nearest first: ``red ball 1``. A door's
    state belongs to its name: ``red locked door 1``.
    """

    label: str
    kind: str
    cell: Cell
    front: int
    """Steps ahead of the agent."""
    right: int
    """Steps to the agent's right; negative to the left."""
    open: bool = False


def look(level: Level) -> list[Sight]:
    """The objects in view, nearest first; of equally near ones the farther ahead, then the farther left."""
    pose = level.pose
    sights: list[Sight] = []
    counts: dict[str, int] = {}
    places = [(front, right) for front in range(_VIEW_DEPTH) for right in range(-_VIEW_DEPTH, _VIEW_DEPTH + 1)]
    for front, right in sorted(places, key=lambda place: (place[0] + abs(place[1]), -place[0], place[1])):
        cell = offset(pose, front, right)
        if cell == pose[:2] or cell not in level.visible:
            continue
        thing = level.at(cell)
        if thing is None or thing.type in _NO_OBJECT:
            continue
        is_door = thing.type == "door"
        is_open = is_door and bool(thing.is_open)
        state = ("open " if is_open else "locked " if thing.is_locked else "closed ") if is_door else ""
        name = f"{thing.color} {state}{thing.type}"
        counts[name] = counts.get(name, 0) + 1
        sights.append(Sight(f"{name} {counts[name]}", thing.type, cell, front, right, is_open))
    return sights


def wall_ahead(level: Level) -> int | None:
    """Steps to the wall straight ahead, if it is in view."""
    for front in range(1, _VIEW_DEPTH):
        cell = offset(level.pose, front, 0)
        if cell not in level.visible:
            return None
        thing = level.at(cell)
        if thing is not None and thing.type == "wall":
            return front
    return None
