"""Everything the agent reads, in each style."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.maze.layout import MOVES, Cell, Layout

_SIDES = {
    "to your right": "move right",
    "to your left": "move left",
    "above you": "move up",
    "below you": "move down",
}
"""AgentGym's names of the neighbouring cells, in its order."""

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""A word is one token where a digit with its space is two; no layout has two cells further apart along an axis."""

SUCCESS: Mapping[Style, str] = {"agentgym": "Success", "compact": "done"}
FAILURE: Mapping[Style, str] = {"agentgym": "Failure", "compact": "out of steps"}


def observe(layout: Layout, cell: Cell, goal: Cell, style: Style, note: str = "") -> str:
    """What is seen from a cell; ``note`` says in the ``compact`` style why the agent is where it was."""
    if style == "compact":
        return f"{note}, {_compact(layout, cell, goal)}" if note else _compact(layout, cell, goal)
    possible = layout.open_moves(cell)
    walls = [side for side, move in _SIDES.items() if move not in possible]
    return (
        f"The goal is at position {goal[0]}, {goal[1]}. "
        f"Your current position is at position {cell[0]}, {cell[1]}. {_list_walls(walls)}"
    )


def _list_walls(walls: list[str]) -> str:
    if not walls:
        return "There are no walls near you."
    return f"There is a wall {walls[0]}." if len(walls) == 1 else f"There are walls {', '.join(walls)}."


def _compact(layout: Layout, cell: Cell, goal: Cell) -> str:
    down, right = goal[0] - cell[0], goal[1] - cell[1]
    words = ["goal"]
    if down:
        words.append(f"{_NUMBERS[abs(down)]} {'down' if down > 0 else 'up'}")
    if right:
        words.append(f"{_NUMBERS[abs(right)]} {'right' if right > 0 else 'left'}")
    ways = [move.removeprefix("move ") for move in MOVES if move in layout.open_moves(cell)]
    return " ".join([*words, "open", *ways])
