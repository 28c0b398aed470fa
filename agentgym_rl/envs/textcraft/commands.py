"""The three commands an agent can give."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentgym_rl.envs.textcraft.recipe import Stack, parse_stack

_CRAFT = re.compile(r"craft (.*) using (.*)")


@dataclass(frozen=True, slots=True)
class Craft:
    output: str
    inputs: tuple[Stack, ...]


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
    output = match[1]
    if output[:1].isdigit():
        made = parse_stack(output)
        if made is None:
            return Unreadable()
        output = made.name
    inputs = []
    for part in match[2].split(","):
        stack = parse_stack(part)
        if stack is None:
            return Unreadable(part.strip())
        inputs.append(stack)
    return Craft(output, tuple(inputs))
