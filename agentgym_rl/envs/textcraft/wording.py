"""Everything the agent reads, in each style."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.textcraft.puzzle import Puzzle
from agentgym_rl.envs.textcraft.recipe import Stack

INSTRUCTIONS: Mapping[Style, str] = {
    "agentgym": (
        "You craft items in Minecraft. At the start you are shown a list of crafting commands, each written as "
        '"craft [item] using [ingredients]", and the item that is your goal; not every command on the list is of '
        "use. In each round you read an observation and answer with one action:\n"
        '- "get" fetches an ingredient that cannot be crafted, for example: get 2 oak log\n'
        '- "craft" carries out one of the commands on the list, for example: craft 4 oak planks using 1 oak log\n'
        '- "inventory" shows what you carry.\n'
        "Rules:\n"
        '1. "get" and "craft" always need a quantity before every item, and ingredients need the quantities of the '
        "list. Repeat a command to craft more.\n"
        '2. "get" takes a quantity and an item and nothing else; do not say where the item comes from.\n'
        "3. Craft only by the commands on the list. Where one names a general ingredient such as "
        '"planks", name a particular kind in its place, such as "dark oak planks".\n\n'
        "Answer in exactly this format:\nThought:\nyour reasoning\n\nAction:\nyour next action"
    ),
    "compact": (
        "Craft the goal: `get 2 oak log` fetches a base item, `craft 4 oak planks using 1 oak log` follows a recipe, "
        "`inventory` lists what you have. Reply with `Action: <command>`."
    ),
}

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
