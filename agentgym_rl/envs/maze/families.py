"""AgentGym's maze and families of random ones.

No random one is wider or higher than 10 cells inside, so a cell and its goal are at most 9 apart along an axis.
"""

from collections.abc import Callable, Mapping
from random import Random

from agentgym_rl.envs.maze.layout import Cell, Layout

DOUBLE_T = Layout(
    "double_t",
    (
        "#############",
        "#.....#.....#",
        "###.#####.###",
        "###.#####.###",
        "###.#####.###",
        "###.......###",
        "######.######",
        "######.######",
        "######.######",
        "#############",
    ),
)
"""AgentGym's maze: two T-shaped passages that meet above a third, with one goal and a fixed order of starts."""

GOAL: Cell = (8, 6)

STARTS: tuple[Cell, ...] = (
    *((1, column) for column in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)),
    *((row, 3) for row in (2, 3, 4, 5)),
    *((5, column) for column in (4, 5, 6)),
    *((row, 6) for row in (6, 7)),
    *((5, column) for column in (7, 8, 9)),
    *((row, 9) for row in (4, 3, 2)),
)
"""Starts by AgentGym's game number. Its list has a 26th, the goal itself, which its environment refuses."""


def corridor(rng: Random) -> set[Cell]:
    """A passage without branches: 2 to 5 straight runs with right angles between them."""
    while True:
        row = column = 0
        cells = {(0, 0)}
        for run in range(rng.randint(2, 5)):
            down = rng.choice((-1, 1)) * (run % 2)
            right = 1 - run % 2  # runs along a row all go one way: the passage never meets itself
            for _ in range(rng.randint(2, 4)):
                row, column = row + down, column + right
                cells.add((row, column))
        if column < 10 and max(y for y, _ in cells) - min(y for y, _ in cells) < 10:
            return cells


def tee(rng: Random) -> set[Cell]:
    """A stem with a bar across one end or both."""
    stem = rng.randint(2, 6)
    cells = {(row, 0) for row in range(stem + 1)}
    for row in (0, stem + 1) if rng.random() < 0.5 else (0,):
        cells |= {(row, column) for column in range(-rng.randint(1, 5), rng.randint(1, 4) + 1)}
    return cells


def rooms(rng: Random) -> set[Cell]:
    """One room, two, or four in a square; a door in every wall between two of them, so that four form a loop."""
    heights = [rng.randint(2, 4) for _ in range(rng.randint(1, 2))]
    widths = [rng.randint(2, 4) for _ in range(rng.randint(1, 2))]
    cells: set[Cell] = set()
    top = 0
    for height in heights:
        column = 0
        for width in widths:
            cells |= {(top + y, column + x) for y in range(height) for x in range(width)}
            if top:
                cells.add((top - 1, column + rng.randrange(width)))
            if column:
                cells.add((top + rng.randrange(height), column - 1))
            column += width + 1
        top += height + 1
    return cells


def perfect(rng: Random) -> set[Cell]:
    """A maze of 3 to 5 by 3 to 5 junctions with exactly one way between any two, carved depth first."""
    height, width = rng.randint(3, 5), rng.randint(3, 5)
    trail: list[Cell] = [(2 * rng.randrange(height), 2 * rng.randrange(width))]
    cells = {trail[0]}
    while trail:
        row, column = trail[-1]
        ways = [
            (down, right)
            for down, right in ((0, -1), (0, 1), (-1, 0), (1, 0))
            if 0 <= row + 2 * down < 2 * height
            and 0 <= column + 2 * right < 2 * width
            and (row + 2 * down, column + 2 * right) not in cells
        ]
        if not ways:
            trail.pop()
            continue
        down, right = rng.choice(ways)
        trail.append((row + 2 * down, column + 2 * right))
        cells |= {(row + down, column + right), trail[-1]}
    return cells


FAMILIES: Mapping[str, Callable[[Random], set[Cell]]] = {
    "corridor": corridor,
    "tee": tee,
    "rooms": rooms,
    "perfect": perfect,
}


def draw(family: str, rng: Random) -> Layout:
    """A random layout of a family, turned and mirrored at random."""
    cells = FAMILIES[family](rng)
    swap, flip_rows, flip_columns = (rng.random() < 0.5 for _ in range(3))
    if swap:
        cells = {(column, row) for row, column in cells}
    if flip_rows:
        cells = {(-row, column) for row, column in cells}
    if flip_columns:
        cells = {(row, -column) for row, column in cells}
    return Layout.around(family, cells)
