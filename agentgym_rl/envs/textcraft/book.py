"""A recipe book: what can be crafted from what, and how deep."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from agentgym_rl.envs.textcraft.recipe import Recipe, Stack


class RecipeBook:
    """Recipes and tags, with no way to need an item for itself.

    A name is a *tag* (any member will do), *craftable* (some recipe makes it) or *base* (``get`` brings it).

    Args:
        recipes: in a fixed order; several may make the same item.
        tags: members by tag.

    Raises:
        ValueError: a tag is empty or shares a name with an item, or the recipes form a cycle.
    """

    def __init__(self, recipes: Iterable[Recipe], tags: Mapping[str, Sequence[str]]) -> None:
        self.recipes: dict[str, list[Recipe]] = {}
        """The ways to make each craftable item."""
        self.uses: dict[str, list[Recipe]] = {}
        """The recipes that take each item or tag."""
        self.tags: dict[str, tuple[str, ...]] = {tag: tuple(members) for tag, members in sorted(tags.items())}
        for recipe in recipes:
            self.recipes.setdefault(recipe.output.name, []).append(recipe)
            for stack in recipe.inputs:
                self.uses.setdefault(stack.name, []).append(recipe)
        for tag, members in self.tags.items():
            if not members or tag in self.recipes:
                raise ValueError(f"tag {tag!r} is empty or is also an item")
        named = set(self.uses) | {member for members in self.tags.values() for member in members}
        self.base: frozenset[str] = frozenset(named - self.recipes.keys() - self.tags.keys())
        self._depths: dict[str, int] = {}
        self._trees: dict[str, list[Recipe]] = {}
        made_of = {name: self.below(name) for name in (*self.recipes, *self.tags)}
        try:
            for name in TopologicalSorter(made_of).static_order():
                self._depths[name] = self._measure(name)
        except CycleError as error:
            raise ValueError(f"recipes form a cycle: {' <- '.join(reversed(error.args[1]))}") from None

    def depth(self, name: str) -> int:
        """Crafting levels above base items by the shallowest recipe: 0 for a base item, as AgentGym counts."""
        return self._depths.get(name, 0)

    def goals(self) -> list[str]:
        """Every craftable item, shallow ones first, then by name."""
        return sorted(self.recipes, key=lambda name: (self.depth(name), name))

    def below(self, name: str) -> list[str]:
        """The members of a tag, or what the recipes of an item take."""
        inputs = [stack.name for recipe in self.recipes.get(name, ()) for stack in recipe.inputs]
        return [*self.tags.get(name, ()), *inputs]

    def tree(self, name: str) -> list[Recipe]:
        """Every recipe that may have a part in making ``name``: all ways, all members of tags."""
        if name not in self._trees:
            names = reachable([name], self.below)
            self._trees[name] = [recipe for item in names for recipe in self.recipes.get(item, ())]
        return self._trees[name]

    def match(self, output: str, inputs: Sequence[Stack]) -> Recipe | None:
        """The recipe for ``output`` that takes exactly these stacks; a tag is filled by one stack of a member."""
        for recipe in self.recipes.get(output, ()):
            if len(recipe.inputs) == len(inputs) and self._fits(recipe, inputs):
                return recipe
        return None

    def _fits(self, recipe: Recipe, inputs: Sequence[Stack]) -> bool:
        rest = list(inputs)
        for ingredient in sorted(recipe.inputs, key=lambda stack: stack.name in self.tags):
            names = self.tags.get(ingredient.name, (ingredient.name,))
            fitting = next((stack for stack in rest if stack.amount == ingredient.amount and stack.name in names), None)
            if fitting is None:
                return False
            rest.remove(fitting)
        return True

    def _measure(self, name: str) -> int:
        """The depth of a name whose ingredients or members have theirs."""
        if name in self.tags:
            return min(self._depths[member] for member in self.tags[name])
        ways = [[self._depths[stack.name] for stack in recipe.inputs] for recipe in self.recipes.get(name, ())]
        return min((1 + max(levels) for levels in ways), default=0)


def reachable(starts: Iterable[str], below: Callable[[str], Iterable[str]]) -> list[str]:
    """The starts and all names below them, each once, depth first from the last."""
    reached: dict[str, None] = {}
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached[name] = None
            waiting.extend(below(name))
    return list(reached)
