"""ALFWorld's commands as functions; names and arguments are AgentGym's."""

from __future__ import annotations

from agentgym_rl.envs.tools import Tool

_RECEPTACLE = {"recep": {"type": "string", "description": "a receptacle and its number, such as 'drawer 2'"}}
_OBJECT = {"obj": {"type": "string", "description": "an object and its number, such as 'mug 1'"}}
_BOTH = {**_OBJECT, **_RECEPTACLE}

TOOLS = (
    Tool("goto", "Walk to a receptacle.", _RECEPTACLE, commands=("go to {recep}",)),
    Tool("take", "Take an object out of a receptacle, or off it.", _BOTH, commands=("take {obj} from {recep}",)),
    Tool("put", "Put what you carry into a receptacle, or on it.", _BOTH, commands=("put {obj} in/on {recep}",)),
    Tool("open", "Open a receptacle.", _RECEPTACLE, commands=("open {recep}",)),
    Tool("close", "Close a receptacle.", _RECEPTACLE, commands=("close {recep}",)),
    Tool("toggle", "Switch an object on.", _OBJECT, commands=("toggle {obj}",)),
    Tool("use", "Use an object, such as a lamp.", _OBJECT, commands=("use {obj}",)),
    Tool("heat", "Heat what you carry with a microwave.", _BOTH, commands=("heat {obj} with {recep}",)),
    Tool("cool", "Cool what you carry with a fridge.", _BOTH, commands=("cool {obj} with {recep}",)),
    Tool("clean", "Clean what you carry with a sinkbasin.", _BOTH, commands=("clean {obj} with {recep}",)),
    Tool(
        "examine",
        "Look at an object, or into a receptacle.",
        {"recep": {"type": "string", "description": "a receptacle or an object and its number"}},
        commands=("examine {recep}",),
    ),
    Tool("inventory", "Tell what you carry.", commands=("inventory",)),
    Tool("look", "Tell where you are.", commands=("look",)),
)
