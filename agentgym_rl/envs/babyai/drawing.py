"""Pictures of the grid for the viewer."""

from __future__ import annotations

from collections.abc import Iterable

from minigrid.core.world_object import WorldObj

from agentgym_rl.envs.babyai.geometry import DIRECTIONS, Cell
from agentgym_rl.envs.babyai.level import Level
from agentgym_rl.envs.picture import Picture, Shape, shape

CELL = 24
COLOURS = {
    "red": "#d8433b", "green": "#2f9e55", "blue": "#3f6fd8", "purple": "#8a4fc0", "yellow": "#d9a400",
    "grey": "#8b8b90",
}  # fmt: skip
_HEADINGS = ("right", "down", "left", "up")


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
    fill, size = COLOURS[thing.color], CELL * scale

    def at(value: float) -> float:
        return round(value * size, 2)

    if thing.type == "ball":
        return [shape("circle", cx=x + at(0.5), cy=y + at(0.5), r=at(0.34), fill=fill)]
    if thing.type == "box":
        return [
            shape("rect", x=x + at(0.16), y=y + at(0.16), width=at(0.68), height=at(0.68), rx=at(0.06), fill="none",
                  stroke=fill, stroke_width=at(0.13)),
            shape("line", x1=x + at(0.16), y1=y + at(0.5), x2=x + at(0.84), y2=y + at(0.5), stroke=fill,
                  stroke_width=at(0.1)),
        ]  # fmt: skip
    if thing.type == "key":
        bit = f"M{x + at(0.5)} {y + at(0.44)}V{y + at(0.88)}M{x + at(0.5)} {y + at(0.66)}h{at(0.18)}"
        return [
            shape("circle", cx=x + at(0.5), cy=y + at(0.28), r=at(0.15), fill="none", stroke=fill,
                  stroke_width=at(0.11)),
            shape("path", d=f"{bit}M{x + at(0.5)} {y + at(0.84)}h{at(0.18)}", fill="none", stroke=fill,
                  stroke_width=at(0.11)),
        ]  # fmt: skip
    if thing.type == "door":
        if thing.is_open:
            return [shape("rect", x=x, y=y, width=at(0.2), height=at(1), fill=fill)]
        frame = shape("rect", x=x + at(0.06), y=y + at(0.06), width=at(0.88), height=at(0.88), fill=fill,
                      fill_opacity=0.28, stroke=fill, stroke_width=at(0.12))  # fmt: skip
        if thing.is_locked:
            return [frame, shape("rect", x=x + at(0.4), y=y + at(0.38), width=at(0.2), height=at(0.28), fill=fill)]
        return [frame, shape("circle", cx=x + at(0.72), cy=y + at(0.5), r=at(0.09), fill=fill)]
    return [shape("rect", x=x + at(0.2), y=y + at(0.2), width=at(0.6), height=at(0.6), fill=fill)]
