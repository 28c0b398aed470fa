"""TextCraft's commands as functions."""

from __future__ import annotations

from agentgym_rl.envs.tools import Tool

_ITEMS = {"type": "string", "description": "amounts and items separated by commas, such as '2 stick, 1 oak planks'"}

TOOLS = (
    Tool("inventory", "Show what you hold.", commands=("inventory",)),
    Tool("get", "Take base items from the environment.", {"items": _ITEMS}, commands=("get {items}",)),
    Tool(
        "craft",
        "Craft an item by one of the recipes.",
        {"output": _ITEMS, "ingredients": _ITEMS},
        commands=("craft {output} using {ingredients}",),
    ),
)
