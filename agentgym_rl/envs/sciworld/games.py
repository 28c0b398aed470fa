"""AgentGym's 4,339 games of ScienceWorld: numbering and splits.

A game is a variation of a task. The tasks are in ``games.toml``, because asking the library for them starts Java; a
test compares the two.
"""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from agentgym_rl.envs.splits import no_task
from agentgym_rl.envs.tables import load


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


FAMILIES = tuple(
    Family(name, *bounds)
    for name, bounds in load(Path(__file__).with_name("games.toml"), dict[str, tuple[int, ...]]).items()
)

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
    """The game of an index. Raises TaskNotFound: there is none."""
    if not 0 <= index < STARTS[-1]:
        raise no_task("sciworld", index, [range(STARTS[-1])])
    place = bisect_right(STARTS, index) - 1
    return Game(FAMILIES[place], index - STARTS[place])


def splits(electrical: bool = True) -> dict[str, tuple[int, ...]]:
    """Indices of each split; ``electrical`` says whether the electrical families are among them."""
    by_split: dict[str, list[int]] = {"train": [], "dev": [], "test": [], "agentgym": []}
    for start, family in zip(STARTS, FAMILIES, strict=False):
        if family.electrical and not electrical:
            continue
        bounds = (0, family.dev, family.test, family.variations)
        for split, first, last in zip(("train", "dev", "test"), bounds, bounds[1:], strict=False):
            by_split[split] += range(start + first, start + last)
        by_split["agentgym"] += range(start, start + family.variations)
    return {split: tuple(indices) for split, indices in by_split.items()}
