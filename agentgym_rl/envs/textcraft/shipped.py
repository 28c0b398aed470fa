"""The recipe book and goals that come with the package."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from typing import Any

from agentgym_rl.envs.textcraft.book import RecipeBook
from agentgym_rl.envs.textcraft.recipe import Recipe, parse_stack


def _data(name: str) -> Any:
    return json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def parse_recipe(line: str) -> Recipe:
    """Read ``4 stick using 2 planks``.

    Raises:
        ValueError: the line is not of that form.
    """
    output, _, inputs = line.partition(" using ")
    stacks = [parse_stack(text) for text in (output, *inputs.split(","))]
    if any(stack is None for stack in stacks):
        raise ValueError(f"not a recipe: {line!r}")
    made, *taken = [stack for stack in stacks if stack is not None]
    return Recipe(made, tuple(taken))


def shipped_book() -> RecipeBook:
    """The book in ``recipes.json``.

    Raises:
        ValueError: the items no recipe makes are not the base items the file lists.
    """
    data = _data("recipes.json")
    book = RecipeBook([parse_recipe(line) for line in data["recipes"]], data["tags"])
    if book.base != frozenset(data["base"]):
        raise ValueError(f"base items differ from those listed: {sorted(book.base ^ frozenset(data['base']))}")
    return book


def shipped_goals() -> dict[str, list[str]]:
    """The frozen goals by split, ``train`` then ``test``; an item id counts through both."""
    goals: dict[str, list[str]] = _data("goals.json")["goals"]
    return goals


def goals_digest(goals: dict[str, list[str]]) -> str:
    """SHA-256 of the goal lists as compact JSON with sorted keys."""
    return hashlib.sha256(json.dumps(goals, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
