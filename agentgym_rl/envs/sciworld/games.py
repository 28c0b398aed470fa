"""AgentGym's 4,339 games of ScienceWorld: numbering and splits.

A game is a variation of a task. Facts of scienceworld 1.2.3, kept here because asking for them starts Java; a test
compares them with the library.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from agentgym_rl.envs.core import TaskNotFound


@dataclass(frozen=True, slots=True)
class Family:
    """A task of ScienceWorld. Its variations go to train up to ``dev``, to dev up to ``test``, and to test."""

    name: str
    dev: int
    test: int
    variations: int

    @property
    def electrical(self) -> bool:
        """Whether things have to be connected by wires."""
        return self.name.startswith(("power-component", "test-conductivity"))


FAMILIES = (
    Family("boil", 14, 21, 30),
    Family("melt", 14, 21, 30),
    Family("freeze", 14, 21, 30),
    Family("change-the-state-of-matter-of", 14, 21, 30),
    Family("use-thermometer", 270, 405, 540),
    Family("measure-melting-point-known-substance", 218, 327, 436),
    Family("power-component", 10, 15, 20),
    Family("power-component-renewable-vs-nonrenewable-energy", 10, 15, 20),
    Family("test-conductivity", 450, 675, 900),
    Family("test-conductivity-of-unknown-substances", 300, 450, 600),
    Family("find-living-thing", 150, 225, 300),
    Family("find-non-living-thing", 150, 225, 300),
    Family("find-plant", 150, 225, 300),
    Family("find-animal", 150, 225, 300),
    Family("chemistry-mix", 16, 24, 32),
    Family("chemistry-mix-paint-secondary-color", 18, 27, 36),
    Family("chemistry-mix-paint-tertiary-color", 18, 27, 36),
    Family("lifespan-longest-lived", 62, 93, 125),
    Family("lifespan-shortest-lived", 62, 93, 125),
    Family("lifespan-longest-lived-then-shortest-lived", 62, 93, 125),
    Family("identify-life-stages-1", 6, 9, 14),
    Family("identify-life-stages-2", 4, 6, 10),
)
"""In the library's order, without those AgentGym leaves out: 2-3, 5-1, 5-2, 9-1 to 9-3, 10-1 and 10-2.

AgentGym's server does number 2-3, its data files do not (WooooDyy/AgentGym issue 49); ids here are the files'.
"""

STARTS = (0, *accumulate(family.variations for family in FAMILIES))
"""Index of each family's first game, and after the last the number of games."""


@dataclass(frozen=True, slots=True)
class Game:
    """What the simulator loads."""

    family: Family
    variation: int

    def __str__(self) -> str:
        return f"{self.family.name}, variation {self.variation}"


def game(index: int) -> Game:
    """The game of an index.

    Raises:
        TaskNotFound: there is none.
    """
    if not 0 <= index < STARTS[-1]:
        raise TaskNotFound(f"sciworld has no task {index}: valid are 0 to {STARTS[-1] - 1}")
    place = bisect_right(STARTS, index) - 1
    return Game(FAMILIES[place], index - STARTS[place])


def splits(electrical: bool = True) -> dict[str, tuple[int, ...]]:
    """Indices of each split; ``electrical`` says whether the electrical families are among them."""
    found: dict[str, list[int]] = {"train": [], "dev": [], "test": [], "agentgym": []}
    for start, family in zip(STARTS, FAMILIES, strict=False):
        if family.electrical and not electrical:
            continue
        bounds = (0, family.dev, family.test, family.variations)
        for split, first, last in zip(("train", "dev", "test"), bounds, bounds[1:], strict=False):
            found[split] += range(start + first, start + last)
        found["agentgym"] += range(start, start + family.variations)
    return {split: tuple(indices) for split, indices in found.items()}
