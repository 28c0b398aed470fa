"""The commands of an agent, and the inventory that they change."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentgym_rl.envs.textcraft.book import RecipeBook
from agentgym_rl.envs.textcraft.recipe import Recipe, Stack, parse_stack

_CRAFT = re.compile(r"craft (.*) using (.*)")


@dataclass(frozen=True, slots=True)
class Craft:
    output: str
    inputs: tuple[Stack, ...]
    amount: int = 1
    """Of the output, as the agent says; the recipe counts."""


@dataclass(frozen=True, slots=True)
class Get:
    stack: Stack


@dataclass(frozen=True, slots=True)
class ShowInventory:
    pass


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Not a command. ``ingredient`` is the part at fault where a craft command came that far."""

    ingredient: str | None = None


Command = Craft | Get | ShowInventory | Unreadable


def parse_command(text: str) -> Command:
    """Read a command; never raises. The amount of what is crafted may be left out and need not be the recipe's."""
    if text.split(" ", 1)[0] == "inventory":
        return ShowInventory()
    if text.startswith("get "):
        stack = parse_stack(text[4:])
        return Unreadable() if stack is None else Get(stack)
    match = _CRAFT.fullmatch(text)
    if match is None:
        return Unreadable()
    output, amount = match[1], 1
    if output[:1].isdigit():
        made = parse_stack(output)
        if made is None:
            return Unreadable()
        output, amount = made
    inputs = []
    for part in match[2].split(","):
        stack = parse_stack(part)
        if stack is None:
            return Unreadable(part.strip())
        inputs.append(stack)
    return Craft(output, tuple(inputs), amount)


@dataclass(slots=True)
class Workshop:
    """Amounts held by item name, in the order first held."""

    book: RecipeBook
    inventory: Counter[str] = field(default_factory=Counter)

    def get(self, stack: Stack) -> bool:
        """Fetch a base item. False for any other item."""
        if stack.name not in self.book.base:
            return False
        self.inventory[stack.name] += stack.amount
        return True

    def holds(self, inputs: tuple[Stack, ...]) -> bool:
        needed: Counter[str] = Counter()
        for stack in inputs:
            needed[stack.name] += stack.amount
        return needed <= self.inventory

    def craft(self, command: Craft) -> Recipe | None:
        """Carry out the matching recipe with ingredients that are held. None where no recipe matches."""
        recipe = self.book.match(command.output, command.inputs)
        if recipe is None:
            return None
        for stack in command.inputs:
            self.inventory[stack.name] -= stack.amount
            if not self.inventory[stack.name]:
                del self.inventory[stack.name]
        self.inventory[recipe.output.name] += recipe.output.amount
        return recipe


def crafted(book: RecipeBook, commands: Sequence[str]) -> dict[str, int]:
    """What commands craft from nothing, in order, each with the number of the command that makes the first."""
    workshop, made = Workshop(book), dict[str, int]()
    for number, text in enumerate(commands, start=1):
        match parse_command(text):
            case Get(stack):
                workshop.get(stack)
            case Craft() as command if workshop.holds(command.inputs):
                if (recipe := workshop.craft(command)) is not None:
                    made.setdefault(recipe.output.name, number)
    return made
