"""The objects in view, named and numbered."""

from dataclasses import dataclass

from agentgym_rl.envs.babyai.geometry import Cell, offset
from agentgym_rl.envs.babyai.level import DEPTH, SIDE, Level

_NEAREST_FIRST = sorted(
    ((front, right) for front in range(DEPTH) for right in range(-SIDE, SIDE + 1) if front or right),
    key=lambda place: (place[0] + abs(place[1]), -place[0], place[1]),
)
_NO_OBJECT = ("wall", "floor")


@dataclass(frozen=True, slots=True)
class Sight:
    """One object in view.

    A door's state belongs to its name: ``red locked door``. ``number`` counts the objects of a name, nearest first.
    """

    name: str
    number: int
    kind: str
    cell: Cell
    front: int
    """Steps ahead of the agent."""
    right: int
    """Steps to the agent's right; negative to the left."""
    open: bool = False

    @property
    def label(self) -> str:
        """Name and number: ``red ball 1``."""
        return f"{self.name} {self.number}"


def look(level: Level) -> list[Sight]:
    """The objects in view, nearest first; of equally near ones the farther ahead, then the farther left."""
    sights: list[Sight] = []
    counts: dict[str, int] = {}
    for front, right in _NEAREST_FIRST:
        cell = level.view.get((front, right))
        if cell is None:
            continue
        thing = level.at(cell)
        if thing is None or thing.type in _NO_OBJECT:
            continue
        is_door = thing.type == "door"
        is_open = is_door and bool(thing.is_open)
        state = ("open " if is_open else "locked " if thing.is_locked else "closed ") if is_door else ""
        name = f"{thing.color} {state}{thing.type}"
        counts[name] = counts.get(name, 0) + 1
        sights.append(Sight(name, counts[name], thing.type, cell, front, right, is_open))
    return sights


def wall_ahead(level: Level) -> int | None:
    """Steps to the wall straight ahead, if it is in view."""
    for front in range(1, DEPTH):
        cell = offset(level.pose, front, 0)
        if cell not in level.visible:
            return None
        thing = level.at(cell)
        if thing is not None and thing.type == "wall":
            return front
    return None
