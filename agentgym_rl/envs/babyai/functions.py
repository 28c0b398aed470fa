"""BabyAI's commands as functions."""

from __future__ import annotations

from agentgym_rl.envs.tools import Tool

_OBJECT = {"object": {"type": "string", "description": "colour, kind and number, such as 'red ball 1'"}}
_DOOR = {"door": {"type": "string", "description": "colour, 'door' and number, such as 'blue door 1'"}}

TOOLS = (
    Tool(
        "turn",
        "Turn on the spot.",
        {"direction": {"type": "string", "enum": ["left", "right"], "description": "which way"}},
        commands=("turn {direction}",),
    ),
    Tool("move_forward", "Walk one cell ahead.", commands=("move forward",)),
    Tool("drop", "Put down what you carry in the cell ahead.", commands=("drop",)),
    Tool(
        "pickup",
        "Walk to an object and take it; without one, take what is ahead.",
        _OBJECT,
        ("object",),
        ("pickup", "pickup {object}"),
    ),
    Tool("toggle", "Open or close what is ahead.", commands=("toggle",)),
    Tool("go_to", "Walk up to an object.", _OBJECT, commands=("go to {object}",)),
    Tool("go_through", "Walk through an open door.", _DOOR, commands=("go through {door}",)),
    Tool("open_and_go_through", "Open a door and walk through it.", _DOOR, commands=("toggle and go through {door}",)),
    Tool("check_available_actions", "List what is possible now.", commands=("check available actions",)),
)
