"""From task indices to mazes: numbering, splits, difficulty. Everything is a function of the index.

Indices 0 to 24 are AgentGym's. From 26 on the families of layouts take turns, then the ranges of path lengths. The
fingerprint of a layout decides which split may use it, so no layout occurs in two splits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.maze.double_t import DOUBLE_T, GOAL, STARTS
from agentgym_rl.envs.maze.families import FAMILIES, draw
from agentgym_rl.envs.maze.layout import Cell, Layout

BANDS = (range(1, 5), range(5, 9), range(9, 13))
"""Lengths of the shortest path, by difficulty."""

SPLITS: Mapping[str, range] = {
    "train": range(26, 506),
    "test": range(506, 626),
    "agentgym": range(len(STARTS)),
    "train_variants": range(626, 24_626),
    "val_variants": range(24_626, 27_026),
    "test_variants": range(27_026, 29_426),
}
"""Task indices of each split. Index 25 is no task: AgentGym's 26th start is the goal."""

FIRST = SPLITS["train"].start

SEED = "maze 0"
"""Under this seed no task of ``train`` or ``test`` occurs twice."""

SHARES: Mapping[str, range] = {
    "train": range(0, 2),
    "test": range(2, 3),
    "train_variants": range(3, 8),
    "val_variants": range(8, 9),
    "test_variants": range(9, 10),
}
"""The last decimal digits of fingerprints (read as numbers) that belong to each split."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A task laid out."""

    layout: Layout
    start: Cell
    goal: Cell

    def __str__(self) -> str:
        name = f"{self.layout.family}-{self.layout.fingerprint}"
        return f"go from {self.start[0]}, {self.start[1]} to {self.goal[0]}, {self.goal[1]} in {name}"

    def path(self) -> list[str]:
        """The moves of a shortest path."""
        return self.layout.path(self.start, self.goal)


def of_family(family: str) -> dict[str, range]:
    """:data:`SPLITS` without the tasks of other families; AgentGym's stay.

    Raises:
        ValueError: there is no such family.
    """
    if family not in FAMILIES:
        raise ValueError(f"family {family!r} is unknown; choose one of {', '.join(FAMILIES)}")
    place = list(FAMILIES).index(family)
    return {name: SPLITS[name][place :: len(FAMILIES)] if name in SHARES else SPLITS[name] for name in SPLITS}


def difficulty(index: int) -> str:
    """The range of path lengths the task belongs to, such as ``steps 5-8``.

    Raises:
        TaskNotFound: there is no such task.
    """
    if _split(index) == "agentgym":
        steps = len(puzzle(index).path())
        band = next(band for band in BANDS if steps in band)
    else:
        band = _kind(index)[1]
    return f"steps {band[0]}-{band[-1]}"


@lru_cache(maxsize=1024)
def puzzle(index: int) -> Puzzle:
    """Lay out a task.

    Raises:
        TaskNotFound: there is no such task.
    """
    split = _split(index)
    if split == "agentgym":
        return Puzzle(DOUBLE_T, STARTS[index], GOAL)
    family, band = _kind(index)
    rng = Random(f"{SEED}:{index}")
    length = rng.choice(band)
    while True:
        layout = draw(family, rng)
        if int(layout.fingerprint, 16) % 10 not in SHARES[split]:
            continue
        start = rng.choice(layout.cells())
        goals = [cell for cell, steps in layout.distances(start).items() if steps == length]
        if goals:
            return Puzzle(layout, start, rng.choice(goals))


def _kind(index: int) -> tuple[str, range]:
    """Family and path lengths of a task from :data:`FIRST` on."""
    turn, family = divmod(index - FIRST, len(FAMILIES))
    return list(FAMILIES)[family], BANDS[turn % len(BANDS)]


def _split(index: int) -> str:
    for name, indices in SPLITS.items():
        if index in indices:
            return name
    last = SPLITS["test_variants"][-1]
    raise TaskNotFound(f"maze has no task {index}: valid are 0 to {len(STARTS) - 1} and {FIRST} to {last}")
