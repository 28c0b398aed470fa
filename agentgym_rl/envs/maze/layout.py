"""Walls and open cells, and the ways between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agentgym_rl.envs.splits import fingerprint

Cell = tuple[int, int]
"""Row and column; (0, 0) is the top left corner, which is always a wall."""

MOVES: Mapping[str, Cell] = {"move left": (0, -1), "move right": (0, 1), "move up": (-1, 0), "move down": (1, 0)}
"""What each move adds to row and column."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A maze without start and goal. ``rows`` are lines of ``#`` (wall) and ``.`` (open) with walls all around."""

    family: str
    rows: tuple[str, ...]

    @classmethod
    def around(cls, family: str, cells: Collection[Cell]) -> Layout:
        """The smallest layout with these open cells, wherever they lie."""
        top, left = (min(cell[axis] for cell in cells) - 1 for axis in (0, 1))
        bottom, right = (max(cell[axis] for cell in cells) + 1 for axis in (0, 1))
        rows = range(top, bottom + 1)
        columns = range(left, right + 1)
        return cls(family, tuple("".join(".#"[(row, column) not in cells] for column in columns) for row in rows))

    @property
    def fingerprint(self) -> str:
        """First 8 hex digits of the SHA-256 of the rows."""
        return fingerprint("\n".join(self.rows), 8)

    @property
    def extent(self) -> int:
        """How many cells the inside is wide or high, the larger."""
        return max(len(self.rows), len(self.rows[0])) - 2

    def cells(self) -> list[Cell]:
        """The open cells, row by row."""
        return [(y, x) for y, row in enumerate(self.rows) for x, mark in enumerate(row) if mark == "."]

    def after(self, cell: Cell, move: str) -> Cell:
        """Where a move from an open cell leads: the next cell, or the same one where a wall is in the way."""
        row, column = cell[0] + MOVES[move][0], cell[1] + MOVES[move][1]
        return (row, column) if self.rows[row][column] == "." else cell

    def open_moves(self, cell: Cell) -> list[str]:
        """The moves that lead to another cell, in the order of :data:`MOVES`."""
        return [move for move in MOVES if self.after(cell, move) != cell]

    def distances(self, cell: Cell) -> dict[Cell, int]:
        """Fewest moves from or to every cell that can be reached, nearest first."""
        steps = {cell: 0}
        waiting = deque([cell])
        while waiting:
            current = waiting.popleft()
            for move in MOVES:
                neighbour = self.after(current, move)
                if neighbour not in steps:
                    steps[neighbour] = steps[current] + 1
                    waiting.append(neighbour)
        return steps

    def path(self, start: Cell, goal: Cell) -> list[str]:
        """The moves of a shortest path; of equally short ones, the first in the order of :data:`MOVES`.

        Raises:
            KeyError: the goal cannot be reached.
        """
        steps_left = self.distances(goal)
        moves: list[str] = []
        cell = start
        while steps_left[cell]:
            move = next(each for each in MOVES if steps_left[self.after(cell, each)] < steps_left[cell])
            moves.append(move)
            cell = self.after(cell, move)
        return moves
