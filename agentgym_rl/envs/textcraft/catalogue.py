"""From task indices to goals: a recipe book, its goals and its splits."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from random import Random
from typing import Any, overload

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.textcraft.book import RecipeBook
from agentgym_rl.envs.textcraft.official import official_book
from agentgym_rl.envs.textcraft.plan import make_plan
from agentgym_rl.envs.textcraft.recipe import parse_recipe

MAX_TURNS = 20
"""Turn limit of an episode; no variant asks for an amount whose plan is longer."""
LAST_VERSION = 999
VERSIONS = {"train": range(1, 901), "val": range(901, 950), "test": range(950, 1000)}
"""The versions of a goal that each variant split has."""
LAYERS = (range(1), VERSIONS["test"], VERSIONS["val"], VERSIONS["train"])
"""All versions. Those of one layer never show what those of an earlier layer show."""
TRAIN, TEST = 374, 100
"""Split sizes, AgentGym's."""


class VariantIndices(Sequence[int]):
    """The task indices ``goal + stride * version``, version by version, without a list of them.

    Args:
        goals: goal indices, each below ``stride``.
        versions: a range of version numbers.
        stride: what one version adds to an index.
    """

    def __init__(self, goals: Sequence[int], versions: range, stride: int) -> None:
        self._goals = goals
        self._members = goals if isinstance(goals, range) else frozenset(goals)
        self._versions = versions
        self._stride = stride

    def __len__(self) -> int:
        return len(self._goals) * len(self._versions)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"place {place} is outside {len(self)} variants")
        version, goal = divmod(place % len(self), len(self._goals))
        return self._goals[goal] + self._stride * self._versions[version]

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        version, goal = divmod(index, self._stride)
        return version in self._versions and goal in self._members


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """The tasks of one recipe book. Index ``goal + stride * version``; version 0 is the goal itself."""

    book: RecipeBook
    goals: tuple[str, ...]
    splits: Mapping[str, Sequence[int]]
    stride: int
    _doubles: dict[str, int] = field(default_factory=dict)

    def locate(self, index: int) -> tuple[str, int]:
        """The goal item and the version of a task index. Raises TaskNotFound: there is no such goal or version."""
        version, goal = divmod(index, self.stride)
        if not (0 <= version <= LAST_VERSION and goal < len(self.goals)):
            raise TaskNotFound(
                f"textcraft has no task {index}: valid are goal + {self.stride} * version "
                f"with goal in 0..{len(self.goals) - 1} and version in 0..{LAST_VERSION}"
            )
        return self.goals[goal], version

    def versions(self, goal: str, versions: range) -> list[int]:
        """The indices of some versions of a goal."""
        number = self.goals.index(goal)
        return [number + self.stride * version for version in versions]

    def layer(self, index: int) -> int:
        """The place in :data:`LAYERS` of a task's version."""
        return next(place for place, versions in enumerate(LAYERS) if index // self.stride in versions)

    def quoted(self, index: int) -> tuple[str, ...] | None:
        """The recipes on show where they are given and not drawn."""
        return None

    def double(self, goal: str) -> int:
        """The amount that two batches of ``goal`` make; 0 when making it takes more than :data:`MAX_TURNS` turns."""
        if goal not in self._doubles:
            plan = make_plan(self.book, goal, 1, Random(0))
            amount = 2 * plan.recipes[-1].output.amount
            fits = len(make_plan(self.book, goal, amount, Random(0)).commands) <= MAX_TURNS
            self._doubles[goal] = amount if fits else 0
        return self._doubles[goal]


@cache
def catalogue(recipes: str | Path | None) -> Catalogue:
    """The shipped tasks, or those of an official recipe folder: every craftable item, shallow ones first.

    Raises:
        ValueError: the folder cannot be read; see :func:`official_book`.
    """
    if recipes is None:
        book, frozen = shipped_book(), _read("goals.json")["goals"]
        goals = (*frozen["train"], *frozen["test"])
        train: Sequence[int] = range(len(frozen["train"]))
        test: Sequence[int] = range(len(train), len(goals))
    else:
        book = official_book(recipes)
        goals = tuple(book.goals())
        train, test = _split(len(goals))
    stride = 1000 * ceil(len(goals) / 1000)
    return Catalogue(book, goals, {"train": train, "test": test, **variants(train, stride)}, stride)


def hold_out(train: Sequence[int], number: int) -> dict[str, Sequence[int]]:
    """The split ``val``, a fixed random choice of the training goals, and ``train`` without it.

    Raises:
        ValueError: there are not more than ``number`` training goals.
    """
    if not 1 <= number < len(train):
        raise ValueError(f"held_out={number} is not between 1 and {len(train) - 1}, one less than the training goals")
    chosen = set(Random("textcraft:held out").sample(train, number))
    return {"train": tuple(goal for goal in train if goal not in chosen), "val": tuple(sorted(chosen))}


def variants(goals: Sequence[int], stride: int) -> dict[str, Sequence[int]]:
    """The variant splits of some training goals."""
    return {f"{name}_variants": VariantIndices(goals, numbers, stride) for name, numbers in VERSIONS.items()}


def few(tasks: Catalogue, train: Sequence[int], goals: int | None, max_depth: int | None) -> tuple[int, ...]:
    """A fixed random choice of the training goals ``train``, for models that can only learn a few.

    Raises:
        ValueError: there are fewer than ``goals`` training goals of at most ``max_depth``.
    """
    shallow = [index for index in train if max_depth is None or tasks.book.depth(tasks.goals[index]) <= max_depth]
    if goals is not None and not 1 <= goals <= len(shallow):
        raise ValueError(f"goals={goals} is not between 1 and {len(shallow)}, the training goals of that depth")
    order = Random("textcraft:few").sample(shallow, len(shallow))
    return tuple(sorted(order[:goals]))


def _split(count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A fixed random split of goal indices, 374 and 100 where there are that many, else in that proportion."""
    order = Random("textcraft:splits").sample(range(count), count)
    test = min(TEST, count * TEST // (TRAIN + TEST))
    train = min(TRAIN, count - test)
    return tuple(sorted(order[:train])), tuple(sorted(order[train : train + test]))


def shipped_book() -> RecipeBook:
    """The book in ``recipes.json``.

    Raises:
        ValueError: the items no recipe makes are not the base items the file lists.
    """
    data = _read("recipes.json")
    book = RecipeBook([parse_recipe(line) for line in data["recipes"]], data["tags"])
    if book.base != frozenset(data["base"]):
        raise ValueError(f"base items differ from those listed: {sorted(book.base ^ frozenset(data['base']))}")
    return book


def _read(name: str) -> Any:
    return json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))
