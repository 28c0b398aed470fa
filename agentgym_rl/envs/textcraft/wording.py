"""Everything the agent reads, in each style."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.textcraft.puzzle import Puzzle
from agentgym_rl.envs.textcraft.recipe import Stack

_LONGEST_ECHO = 200


def first_observation(puzzle: Puzzle, style: Style) -> str:
    header = "Recipes:" if style == "compact" else "Crafting commands:"
    return "\n".join([header, *puzzle.lines, "", f"Goal: {puzzle.goal}."])


def got(stack: Stack) -> str:
    return f"Got {stack}"


def crafted(output: Stack, style: Style) -> str:
    return f"Crafted {output.amount} {item(output.name, style)}"


def inventory(held: Mapping[str, int], style: Style) -> str:
    if style == "compact":
        return f"Inventory: {', '.join(f'{amount} {name}' for name, amount in held.items()) or 'empty'}"
    if not held:
        return "Inventory: You are not carrying anything."
    return "Inventory: " + "".join(f"[{name}] ({amount}) " for name, amount in held.items())


def not_found(name: str) -> str:
    return f"Could not find {echo(name)}"


def too_few(name: str, style: Style) -> str:
    return f"Could not find enough items to craft {item(echo(name), style)}"


def no_recipe(name: str, style: Style) -> str:
    return f"Could not find a valid recipe for {item(echo(name), style)}"


def unreadable(action: str, ingredient: str | None) -> str:
    if ingredient is not None:
        return f"Wrong item format: {echo(ingredient)}"
    return f"Could not execute {echo(action)}"


def item(name: str, style: Style) -> str:
    """An item as the observation names it: AgentGym's are Minecraft identifiers."""
    return name if style == "compact" else f"minecraft:{name.replace(' ', '_')}"


def echo(text: str) -> str:
    """What the agent wrote, cut to a readable length."""
    return text if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}..."
