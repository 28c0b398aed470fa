"""The agent's inventory and what commands do to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from agentgym_rl.envs.textcraft.book import RecipeBook
from agentgym_rl.envs.textcraft.commands import Craft
from agentgym_rl.envs.textcraft.recipe import Recipe, Stack


@dataclass(slots=True)
class Workshop:
    """Amounts held by item name, in the order first held."""

    book: RecipeBook
    inventory: Counter[str] = field(default_factory=Counter)

    def get(self, stack: Stack) -> bool:
        """Fetch a base item; False where the item is none."""
        if stack.name not in self.book.base:
            return False
        self.inventory[stack.name] += stack.amount
        return True

    def holds(self, inputs: tuple[Stack, ...]) -> bool:
        wanted: Counter[str] = Counter()
        for stack in inputs:
            wanted[stack.name] += stack.amount
        return wanted <= self.inventory

    def craft(self, command: Craft) -> Recipe | None:
        """Carry out the matching recipe with ingredients that are held; None where no recipe matches."""
        recipe = self.book.match(command.output, command.inputs)
        if recipe is None:
            return None
        for stack in command.inputs:
            self.inventory[stack.name] -= stack.amount
            if not self.inventory[stack.name]:
                del self.inventory[stack.name]
        self.inventory[recipe.output.name] += recipe.output.amount
        return recipe
