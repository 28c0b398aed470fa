"""ScienceWorld's actions as functions; names and arguments are AgentGym's."""

from __future__ import annotations

from agentgym_rl.envs.tools import Schema, Tool


def _name(description: str) -> Schema:
    return {"type": "string", "description": description}


_OBJECT = {"obj": _name("the object, in as many words as tell it from others")}

TOOLS = (
    Tool("open", "Open a container or a door.", _OBJECT, commands=("open {obj}",)),
    Tool("close", "Close a container or a door.", _OBJECT, commands=("close {obj}",)),
    Tool("activate", "Turn a device on.", _OBJECT, commands=("activate {obj}",)),
    Tool("deactivate", "Turn a device off.", _OBJECT, commands=("deactivate {obj}",)),
    Tool(
        "connect",
        "Connect two electrical components.",
        {"obj1": _name("a contact, such as 'battery anode'"), "obj2": _name("the contact it is joined to")},
        commands=("connect {obj1} to {obj2}",),
    ),
    Tool("disconnect", "Take an electrical component out of its circuit.", _OBJECT, commands=("disconnect {obj}",)),
    Tool(
        "use",
        "Use a tool, on an object if one is given.",
        {"tool": _name("the tool"), "obj": _name("what it is used on")},
        ("obj",),
        ("use {tool} on {obj}", "use {tool}"),
    ),
    Tool("lookaround", "See what is in the room.", commands=("look around",)),
    Tool("lookat", "See an object in detail.", _OBJECT, commands=("look at {obj}",)),
    Tool("lookin", "See what is in a container.", _OBJECT, commands=("look in {obj}",)),
    Tool("read", "Read a note, a recipe or a book.", _OBJECT, commands=("read {obj}",)),
    Tool(
        "move",
        "Put an object into or onto another.",
        {**_OBJECT, "container": _name("where it goes")},
        commands=("move {obj} to {container}",),
    ),
    Tool("pickup", "Take an object along.", _OBJECT, commands=("pick up {obj}",)),
    Tool("drop", "Put down an object you carry.", _OBJECT, commands=("drop {obj}", "put down {obj}")),
    Tool(
        "pour",
        "Pour out a liquid, or what a container holds.",
        {"liq": _name("the liquid or its container"), "container": _name("where it is poured")},
        commands=("pour {liq} into {container}", "pour {liq} in {container}"),
    ),
    Tool(
        "dunk",
        "Dip a container into a liquid.",
        {"container": _name("the container"), "liq": _name("the liquid")},
        commands=("dunk {container} into {liq}", "dunk {container} in {liq}"),
    ),
    Tool(
        "mix", "Let what a container holds react.", {"container": _name("the container")}, commands=("mix {container}",)
    ),
    Tool("goto", "Walk to a room next to this one.", {"loc": _name("the room")}, commands=("go to {loc}",)),
    Tool("eat", "Eat something.", {"food": _name("the food")}, commands=("eat {food}",)),
    Tool("flush", "Flush a toilet.", _OBJECT, commands=("flush {obj}",)),
    Tool("focus", "Say which object the task is about.", _OBJECT, commands=("focus on {obj}",)),
    Tool(
        "wait",
        "Let time pass: 10 iterations, or 1.",
        {"duration": {"type": "integer", "enum": [1], "description": "1; left out, 10 pass"}},
        ("duration",),
        ("wait{duration}", "wait"),
    ),
    Tool(
        "choose",
        "Answer the question which of several actions you meant.",
        {"option": {"type": "integer", "minimum": 0, "description": "its number in the list"}},
        commands=("{option}",),
    ),
    Tool("examine", "See an object in detail.", _OBJECT, commands=("examine {obj}",)),
    Tool("task", "Read again what is to be done.", commands=("task",)),
    Tool("inventory", "See what you carry.", commands=("inventory",)),
)

TELEPORT = Tool("teleport", "Be in any room at once.", {"loc": _name("the room")}, commands=("teleport to {loc}",))
"""There only with the simplification ``teleportAction``."""
