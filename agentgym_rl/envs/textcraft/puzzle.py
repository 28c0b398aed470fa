"""One task laid out: the goal, how many of it, and the recipes on show."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from agentgym_rl.envs.core import Style, TaskNotFound
from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.envs.textcraft.book import RecipeBook
from agentgym_rl.envs.textcraft.catalogue import LAYERS, Catalogue
from agentgym_rl.envs.textcraft.plan import Plan, make_plan
from agentgym_rl.envs.textcraft.recipe import Recipe

MAX_DISTRACTORS = 10
"""Distractors in the ``agentgym`` style, as many as AgentGym shows."""
COMPACT_LINES, COMPACT_DISTRACTORS, COMPACT_WORDS = 8, 2, 105
"""The ``compact`` style: most lines unless more are needed, fewest distractors, and words of recipes aimed at."""
_MORE_SHARE = 0.25
_DRAWS = 1_000
"""Most draws of the distractors of a task."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What to craft. ``amount`` is None when any number will do."""

    item: str
    amount: int | None

    def __str__(self) -> str:
        return f"craft {self.item}" if self.amount is None else f"craft {self.amount} {self.item}"


@dataclass(frozen=True, slots=True)
class Puzzle:
    goal: Goal
    plan: Plan
    lines: tuple[str, ...]
    """The recipes on show: all that are needed, and distractors."""

    @property
    def content(self) -> str:
        """Goal and recipes, in whatever order they are shown."""
        return "\n".join([f"{self.goal}", *sorted(self.lines)])


def find_goal(tasks: Catalogue, index: int) -> tuple[Goal, Random]:
    """The goal of a task, and the task's random source for the rest of it.

    Raises:
        TaskNotFound: the index is outside the catalogue.
    """
    item, version = tasks.locate(index)
    rng = Random(f"textcraft:{index}")
    more = version > 0 and rng.random() < _MORE_SHARE
    return Goal(item, (tasks.double(item) or None) if more else None), rng


def make_puzzle(tasks: Catalogue, index: int, style: Style, distractors: int | None = None) -> Puzzle:
    """Lay out a task; the same goal and plan in either style.

    A variant that shows what a task of an earlier layer shows (:data:`.catalogue.LAYERS`) gets other distractors.

    Args:
        distractors: how many; None leaves it to the style.

    Raises:
        TaskNotFound: the index is outside the catalogue, or its recipes are too few for another game.
    """
    goal, rng = find_goal(tasks, index)
    plan = make_plan(tasks.book, goal.item, goal.amount or 1, rng)
    if (quoted := tasks.quoted(index)) is not None:
        return Puzzle(goal, plan, quoted)
    earlier = _contents(tasks, goal.item, tasks.layer(index), style, distractors)
    for draw in range(_DRAWS):
        puzzle = Puzzle(goal, plan, _lines(tasks.book, goal.item, plan, style, distractors, rng, any_first=draw > 0))
        if not earlier or fingerprint(puzzle.content, 16) not in earlier:
            return puzzle
    raise TaskNotFound(f"textcraft_{index}: these recipes are too few for a game of {goal} that no earlier split has")


@lru_cache(maxsize=4096)
def _contents(tasks: Catalogue, item: str, layer: int, style: Style, distractors: int | None) -> frozenset[str]:
    """Fingerprints of what all tasks of an item in the layers before ``layer`` show."""
    if layer == 0:
        return frozenset()
    last = (make_puzzle(tasks, index, style, distractors) for index in tasks.versions(item, LAYERS[layer - 1]))
    fingerprints = {fingerprint(puzzle.content, 16) for puzzle in last}
    return _contents(tasks, item, layer - 1, style, distractors) | fingerprints


def _lines(
    book: RecipeBook, item: str, plan: Plan, style: Style, distractors: int | None, rng: Random, any_first: bool
) -> tuple[str, ...]:
    """The recipes on show, shuffled; ``any_first`` is for :func:`_distractors`."""
    tree = book.tree(item)
    if distractors is not None:
        needed = list(plan.recipes) if style == "compact" else tree
        shown = needed + _distractors(book, needed, tree, distractors, rng, any_first, fewest=distractors)
    elif style == "compact":
        shown = _compact(book, plan, tree, rng, any_first)
    else:
        shown = tree + _distractors(book, tree, tree, MAX_DISTRACTORS, rng, any_first)
    lines = [str(recipe) for recipe in shown]
    rng.shuffle(lines)
    return tuple(lines)


def _compact(book: RecipeBook, plan: Plan, tree: list[Recipe], rng: Random, any_first: bool) -> list[Recipe]:
    shown = list(plan.recipes)
    words = sum(_words(recipe) for recipe in shown)
    for count, recipe in enumerate(_distractors(book, shown, tree, COMPACT_LINES, rng, any_first)):
        words += _words(recipe)
        if count >= COMPACT_DISTRACTORS and (len(shown) >= COMPACT_LINES or words > COMPACT_WORDS):
            break
        shown.append(recipe)
    return shown


def _words(recipe: Recipe) -> int:
    return str(recipe).count(" ") + 1


def _distractors(
    book: RecipeBook,
    shown: list[Recipe],
    tree: list[Recipe],
    most: int,
    rng: Random,
    any_first: bool,
    fewest: int = COMPACT_DISTRACTORS,
) -> list[Recipe]:
    """Recipes outside ``tree`` that take what those shown take; any others where there are too few of these.

    Args:
        any_first: begin with any others, so that there are many choices whatever the recipes on show.
    """
    excluded = set(tree)
    distractors = _others(book, excluded, min(fewest, COMPACT_DISTRACTORS), rng) if any_first else []
    excluded.update(distractors)
    names = dict.fromkeys(stack.name for recipe in shown for stack in recipe.inputs)
    related = [
        recipe for recipe in dict.fromkeys(r for name in names for r in book.uses[name]) if recipe not in excluded
    ]
    distractors += rng.sample(related, min(most - len(distractors), len(related)))
    if len(distractors) < fewest:
        distractors += _others(book, excluded.union(distractors), fewest - len(distractors), rng)
    return distractors


def _others(book: RecipeBook, excluded: Collection[Recipe], most: int, rng: Random) -> list[Recipe]:
    others = [recipe for ways in book.recipes.values() for recipe in ways if recipe not in excluded]
    return rng.sample(others, min(most, len(others)))
