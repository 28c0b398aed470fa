"""The oracle: what to fetch and craft, and in which order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random
from typing import TypeVar

from agentgym_rl.envs.textcraft.book import RecipeBook, reachable
from agentgym_rl.envs.textcraft.recipe import Recipe, Stack

Way = TypeVar("Way")


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to make a goal. Each command is one turn."""

    recipes: tuple[Recipe, ...]
    """The recipes it needs, ingredients before what is made of them."""
    commands: tuple[str, ...]
    members: Mapping[str, str]
    """By tag, the member that fills it."""

    @property
    def thought(self) -> str:
        """What each item is made of, from the goal down, and the commands that follow from it."""
        made = {recipe.output.name: recipe.inputs for recipe in self.recipes}
        known: dict[str, str] = {}

        def explain(name: str) -> None:
            if name in known:
                return
            inputs = made.get(name, ())
            known[name] = self.members.get(name) or ", ".join(map(str, inputs)) or "get"
            for below in [self.members[name]] if name in self.members else [stack.name for stack in inputs]:
                explain(below)

        explain(self.recipes[-1].output.name)
        needed = "; ".join(f"{name}: {source}" for name, source in known.items())
        return f"{needed}\nPlan: {'; '.join(self.commands)}"


def make_plan(book: RecipeBook, goal: str, amount: int, rng: Random) -> Plan:
    """Plan ``amount`` of ``goal`` by the shallowest recipes; ``rng`` breaks ties between recipes and tag members.

    A tag is filled by one member throughout, the one that brings in the fewest items not needed anyway.
    """
    chosen: dict[str, Recipe] = {}
    members: dict[str, str] = {}
    needed: set[str] = set()

    def take(name: str, tags: list[str]) -> None:
        if name in book.tags:
            tags.append(name)
        elif name not in needed:
            needed.add(name)
            if name in book.recipes:
                chosen[name] = _best_recipe(book, name, rng)
                for stack in chosen[name].inputs:
                    take(stack.name, tags)

    tags: list[str] = []
    take(goal, tags)
    while tags:
        tags = sorted(set(tags) - members.keys(), key=lambda tag: (book.depth(tag), tag))
        if tags:
            members[tags[0]] = member = _best_member(book, tags[0], needed, rng)
            take(member, tags)

    order: list[str] = []
    _post_order(goal, chosen, members, order)
    return _with_amounts(goal, amount, order, chosen, members)


def _with_amounts(goal: str, amount: int, order: list[str], chosen: dict[str, Recipe], members: dict[str, str]) -> Plan:
    amounts = dict.fromkeys(order, 0)
    amounts[goal] = amount
    crafting: list[str] = []
    for name in reversed(order):
        if name not in chosen:
            continue
        recipe = chosen[name]
        inputs = tuple(Stack(members.get(stack.name, stack.name), stack.amount) for stack in recipe.inputs)
        batches = ceil(amounts[name] / recipe.output.amount)
        for stack in inputs:
            amounts[stack.name] += batches * stack.amount
        crafting += [str(Recipe(recipe.output, inputs))] * batches
    fetching = [f"get {amounts[name]} {name}" for name in order if name not in chosen]
    recipes = tuple(chosen[name] for name in order if name in chosen)
    return Plan(recipes, (*fetching, *reversed(crafting)), members)


def _post_order(name: str, chosen: dict[str, Recipe], members: dict[str, str], order: list[str]) -> None:
    name = members.get(name, name)
    if name in order:
        return
    if name in chosen:
        for stack in chosen[name].inputs:
            _post_order(stack.name, chosen, members, order)
    order.append(name)


def _best_recipe(book: RecipeBook, name: str, rng: Random) -> Recipe:
    ways = book.recipes[name]
    if len(ways) == 1:
        return ways[0]
    return _least(ways, [max(book.depth(stack.name) for stack in way.inputs) for way in ways], rng)


def _best_member(book: RecipeBook, tag: str, needed: set[str], rng: Random) -> str:
    ways = book.tags[tag]

    def taken(name: str) -> list[str]:
        """By the first recipe; tags stay as they are."""
        return [stack.name for recipe in book.recipes.get(name, ())[:1] for stack in recipe.inputs]

    return _least(ways, [len(set(reachable([member], taken)) - needed) for member in ways], rng)


def _least(ways: Sequence[Way], costs: list[int], rng: Random) -> Way:
    cheapest = min(costs)
    return rng.choice([way for way, cost in zip(ways, costs, strict=True) if cost == cheapest])
