"""From task indices to mazes.

Indices 0 to 24 are AgentGym's. From 26 on the families of layouts take turns, then the ranges of path lengths. No
layout occurs in two splits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, cycle
from random import Random

from agentgym_rl.envs.maze.families import DOUBLE_T, FAMILIES, GOAL, STARTS, draw
from agentgym_rl.envs.maze.layout import Cell, Layout
from agentgym_rl.envs.splits import Splits

BANDS = (range(1, 5), range(5, 9), range(9, 13))
"""Lengths of the shortest path, by difficulty."""


def written(band: range) -> str:
    """Path lengths as text, such as ``5-8``."""
    return f"{band[0]}-{band[-1]}"


LENGTHS = tuple(map(written, BANDS))
"""All ranges of path lengths."""
SIZES = range(7, 11)
"""How wide and high the inside of mazes may be: each has mazes of all families and path lengths."""
FURTHEST = BANDS[-1][-1]
"""No goal is more moves away."""

SPLITS = Splits.read(__file__, "maze")
"""Index 25 is no task: AgentGym's 26th start is the goal."""

SEED = "maze 0"
"""Under this seed no task of ``train`` or ``test`` occurs twice."""


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


def of_kind(family: str | None, steps: str | None) -> Mapping[str, Sequence[int]]:
    """:data:`SPLITS` without the tasks of other families and path lengths; AgentGym's stay.

    Args:
        family: None for all.
        steps: path lengths, such as ``5-8``; None for all.

    Raises:
        ValueError: there is no such family, or range of path lengths.
    """
    for option, value, known in (("family", family, FAMILIES), ("steps", steps, LENGTHS)):
        if value is not None and value not in known:
            raise ValueError(f"{option} {value!r} is unknown; choose one of {', '.join(known)}")
    if family is None and steps is None:
        return SPLITS
    kinds = [_kind(place) for place in range(len(FAMILIES) * len(BANDS))]
    chosen = [family in (None, of) and steps in (None, written(band)) for of, band in kinds]
    return {
        name: indices if name == "agentgym" else tuple(compress(indices, cycle(chosen)))
        for name, indices in SPLITS.items()
    }


def difficulty(index: int) -> str:
    """The range of path lengths the task belongs to, such as ``steps 5-8``.

    Raises:
        TaskNotFound: there is no such task.
    """
    split, place = SPLITS.locate(index)
    if split == "agentgym":
        steps = len(puzzle(index).path())
        band = next(band for band in BANDS if steps in band)
    else:
        band = _kind(place)[1]
    return f"steps {written(band)}"


@lru_cache(maxsize=1024)
def puzzle(index: int, size: int = SIZES[-1]) -> Puzzle:
    """Lay out a task, AgentGym's whatever the size.

    Args:
        size: most cells that the inside is wide or high, one of :data:`SIZES`.

    Raises:
        TaskNotFound: there is no such task.
    """
    split, place = SPLITS.locate(index)
    if split == "agentgym":
        return Puzzle(DOUBLE_T, STARTS[index], GOAL)
    family, band = _kind(place)
    rng = Random(f"{SEED}:{index}")
    length = rng.choice(band)
    while True:
        layout = draw(family, rng)
        if layout.extent > size or not SPLITS.owns(split, layout.fingerprint):
            continue
        start = rng.choice(layout.cells())
        goals = [cell for cell, steps in layout.distances(start).items() if steps == length]
        if goals:
            return Puzzle(layout, start, rng.choice(goals))


def _kind(place: int) -> tuple[str, range]:
    """Family and path lengths of a task of ours by its place in a split."""
    turn, family = divmod(place, len(FAMILIES))
    return list(FAMILIES)[family], BANDS[turn % len(BANDS)]
