"""Recipes and their text."""

import re
from typing import NamedTuple

_AMOUNT_OF = re.compile(r"([0-9]{1,6}) (.+)")


class Stack(NamedTuple):
    """An amount of one item, or of one tag where a recipe takes any member."""

    name: str
    amount: int

    def __str__(self) -> str:
        return f"{self.amount} {self.name}"


class Recipe(NamedTuple):
    """What one crafting takes and gives. ``str(recipe)`` is the command that carries it out."""

    output: Stack
    inputs: tuple[Stack, ...]

    def __str__(self) -> str:
        return f"craft {self.output} using {', '.join(map(str, self.inputs))}"


def parse_stack(text: str) -> Stack | None:
    """Read ``2 oak log``; None when the amount is missing, zero or of more than six digits."""
    match = _AMOUNT_OF.fullmatch(text.strip())
    if match is None or int(match[1]) < 1:
        return None
    return Stack(match[2].strip(), int(match[1]))


def parse_recipe(line: str) -> Recipe:
    """Read ``4 stick using 2 planks``. Raises ValueError: the line is not of that form."""
    output, _, inputs = line.partition(" using ")
    stacks = [parse_stack(text) for text in (output, *inputs.split(","))]
    if any(stack is None for stack in stacks):
        raise ValueError(f"not a recipe: {line!r}")
    made, *ingredients = [stack for stack in stacks if stack is not None]
    return Recipe(made, tuple(ingredients))
