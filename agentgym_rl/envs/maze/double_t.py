"""AgentGym's maze: two T-shaped passages that meet above a third, with one goal and a fixed order of starts."""

from __future__ import annotations

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

GOAL: Cell = (8, 6)

STARTS: tuple[Cell, ...] = (
    *((1, column) for column in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)),
    *((row, 3) for row in (2, 3, 4, 5)),
    *((5, column) for column in (4, 5, 6)),
    *((row, 6) for row in (6, 7)),
    *((5, column) for column in (7, 8, 9)),
    *((row, 9) for row in (4, 3, 2)),
)
"""Starts by AgentGym's game number. Its list has a 26th, the goal itself, which its world refuses."""
