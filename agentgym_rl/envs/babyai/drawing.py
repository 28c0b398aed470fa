"""Pictures of the grid for the viewer."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from minigrid.core.world_object import WorldObj

from agentgym_rl.envs.babyai.geometry import DIRECTIONS, Cell
from agentgym_rl.envs.babyai.level import Level
from agentgym_rl.envs.picture import Picture, Shape, shape
from agentgym_rl.envs.sprites import Sprite, placed
from agentgym_rl.envs.tables import load

CELL = 24
_HEADINGS = ("right", "down", "left", "up")


@dataclass(frozen=True)
class Drawing:
    """The file ``drawing.toml``."""

    colours: dict[str, str]
    sprites: dict[str, Sprite]


_FILE = load(Path(__file__).with_name("drawing.toml"), Drawing)


def draw(level: Level) -> Picture:
    """The grid as it is now."""
    cells = sorted(level.all_cells())
    width, height = (1 + max(cell[axis] for cell in cells) for axis in (0, 1))
    things = {cell: thing for cell in cells if (thing := level.at(cell)) is not None}
    walls = [cell for cell, thing in things.items() if thing.type == "wall"]
    shapes = [
        shape("rect", x=0, y=0, width=width * CELL, height=height * CELL, rx=4, class_="ground"),
        shape("path", d=_squares(level.visible), class_="visible"),
        shape("path", d=_squares(walls), class_="wall"),
    ]
    for (x, y), thing in things.items():
        if thing.type not in ("wall", "floor"):
            shapes += _thing(thing, x * CELL, y * CELL)
    shapes.append(shape("path", d=_squares(set(cells) - level.seen), class_="unseen"))
    x, y, heading = level.pose
    shapes.append(_agent(x, y, heading))
    carried = level.carrying
    if carried is not None:
        middle = CELL / 2
        shapes += _thing(carried, x * CELL + middle, y * CELL + middle, scale=0.5)
    held = "nothing" if carried is None else f"a {carried.color} {carried.type}"
    label = (
        f"Grid of {width} by {height}; the agent is in column {x}, row {y}, faces {_HEADINGS[heading]}, carries {held}"
    )
    return Picture(label, width * CELL, height * CELL, tuple(shapes))


def _squares(cells: Iterable[Cell]) -> str:
    return "".join(f"M{x * CELL} {y * CELL}h{CELL}v{CELL}h-{CELL}z" for x, y in sorted(cells)) or "M0 0"


def _agent(x: int, y: int, heading: int) -> Shape:
    middle_x, middle_y = (x + 0.5) * CELL, (y + 0.5) * CELL
    dx, dy = DIRECTIONS[heading]
    points = [(9, 0), (-8, 8), (-4, 0), (-8, -8)]
    turned = [(middle_x + a * dx - b * dy, middle_y + a * dy + b * dx) for a, b in points]
    return shape("path", d="M" + "L".join(f"{a:g} {b:g}" for a, b in turned) + "Z", class_="agent")


def _thing(thing: WorldObj, x: float, y: float, scale: float = 1.0) -> list[Shape]:
    """An object in the cell whose upper left corner is given."""
    name = thing.type
    if name == "door":
        name = "open_door" if thing.is_open else "locked_door" if thing.is_locked else "closed_door"
    sprite = _FILE.sprites.get(name, _FILE.sprites["other"])
    return placed(sprite, _FILE.colours[thing.color], x, y, CELL * scale)
