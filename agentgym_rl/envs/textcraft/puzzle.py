"""One task laid out: the goal, how many of it, and the recipes on show."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.textcraft.book import RecipeBook
from agentgym_rl.envs.textcraft.catalogue import Catalogue
from agentgym_rl.envs.textcraft.plan import Plan, make_plan
from agentgym_rl.envs.textcraft.recipe import Recipe

MAX_DISTRACTORS = 10
"""Distractors in the ``agentgym`` style, as many as AgentGym shows."""
COMPACT_LINES, COMPACT_DISTRACTORS, COMPACT_WORDS = 8, 2, 105
"""The ``compact`` style: most lines unless more are needed, fewest distractors, and words of recipes aimed at."""
_MORE_SHARE = 0.25


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


def find_goal(tasks: Catalogue, index: int) -> tuple[Goal, Random]:
    """The goal of a task, and the task's random source for the rest of it.

    Raises:
        TaskNotFound: the index is outside the catalogue.
    """
    item, version = tasks.locate(index)
    rng = Random(f"textcraft:{index}")
    more = version > 0 and rng.random() < _MORE_SHARE
    return Goal(item, (tasks.double(item) or None) if more else None), rng


def make_puzzle(tasks: Catalogue, index: int, style: Style) -> Puzzle:
    """Lay out a task; the same goal and plan in either style.

    Raises:
        TaskNotFound: the index is outside the catalogue.
    """
    goal, rng = find_goal(tasks, index)
    plan = make_plan(tasks.book, goal.item, goal.amount or 1, rng)
    tree = tasks.book.tree(goal.item)
    if style == "compact":
        shown = _compact(tasks.book, plan, tree, rng)
    else:
        shown = tree + _distractors(tasks.book, tree, tree, MAX_DISTRACTORS, rng)
    lines = [str(recipe) for recipe in shown]
    rng.shuffle(lines)
    return Puzzle(goal, plan, tuple(lines))


def _compact(book: RecipeBook, plan: Plan, tree: list[Recipe], rng: Random) -> list[Recipe]:
    shown = list(plan.recipes)
    words = sum(_words(recipe) for recipe in shown)
    for count, recipe in enumerate(_distractors(book, shown, tree, COMPACT_LINES, rng)):
        words += _words(recipe)
        if count >= COMPACT_DISTRACTORS and (len(shown) >= COMPACT_LINES or words > COMPACT_WORDS):
            break
        shown.append(recipe)
    return shown


def _words(recipe: Recipe) -> int:
    return str(recipe).count(" ") + 1


def _distractors(book: RecipeBook, shown: list[Recipe], tree: list[Recipe], most: int, rng: Random) -> list[Recipe]:
    """Recipes outside ``tree`` that take what those shown take; any others where there are too few of these."""
    names = dict.fromkeys(stack.name for recipe in shown for stack in recipe.inputs)
    excluded = set(tree)
    related = [
        recipe for recipe in dict.fromkeys(r for name in names for r in book.uses[name]) if recipe not in excluded
    ]
    found = rng.sample(related, min(most, len(related)))
    if len(found) < COMPACT_DISTRACTORS:
        excluded.update(found)
        others = [recipe for ways in book.recipes.values() for recipe in ways if recipe not in excluded]
        found += rng.sample(others, min(COMPACT_DISTRACTORS - len(found), len(others)))
    return found
