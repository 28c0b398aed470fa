"""Everything the agent reads, in each style. The simulator's own texts are AgentGym's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentgym_rl.envs.core import Style

_ACTIONS = (
    ("open OBJ, close OBJ", "open or close a container or a door"),
    ("activate OBJ, deactivate OBJ", "turn a device on or off"),
    ("connect OBJ to OBJ, disconnect OBJ", "join electrical components, or take one out of the circuit"),
    ("use OBJ [on OBJ]", "use a tool, perhaps on something"),
    ("look around", "see what is in the room"),
    ("look at OBJ, examine OBJ", "see an object in detail"),
    ("look in OBJ", "see what is in a container"),
    ("read OBJ", "read a note, a recipe or a book"),
    ("move OBJ to OBJ", "put an object into or onto another"),
    ("pick up OBJ, put down OBJ", "take an object along, or leave it here"),
    ("pour OBJ into OBJ", "pour out a liquid, or what a container holds"),
    ("dunk OBJ into OBJ", "dip a container into a liquid"),
    ("mix OBJ", "let what a container holds react"),
    ("go to LOC", "walk to a room next to this one"),
    ("eat OBJ", "eat something"),
    ("flush OBJ", "flush a toilet"),
    ("focus on OBJ", "say which object the task is about; the wrong one loses the game"),
    ("wait, wait1", "let 10 iterations pass, or 1"),
    ("task", "read again what is to be done"),
    ("inventory", "see what you carry"),
)

_TELEPORT = ("teleport to LOC", "be in any room at once")


def instructions(teleport: bool = False) -> Mapping[Style, str]:
    """The instruction in each style; ``teleport`` says whether there is that action."""
    listed = "\n".join(f"- {form}: {meaning}" for form, meaning in (*_ACTIONS, *([_TELEPORT] if teleport else [])))
    return {
        "agentgym": (
            "You do a science experiment in a house. You read what is to be done and what is in the room; each round "
            "you answer with one action and read what came of it. These are the actions, where OBJ is an object and "
            f"LOC a room:\n{listed}\n"
            "When several objects fit your words you get a numbered list; your next action is then its number alone."
            "\n\n"
            "Answer in exactly this format:\nThought:\nyour reasoning\n\nAction:\nyour next action"
        ),
        "compact": (
            "Do the task. Reply `Action: go to kitchen`, or open, close, look around, look in, look at, pick up, move "
            "A to B, focus on, use A on B, connect A to B, pour A into B, activate, deactivate, mix, read, wait, "
            f"inventory{', teleport to' if teleport else ''}, or a number."
        ),
    }


LONGEST: Mapping[Style, int] = {"agentgym": 4_000, "compact": 1_200}
"""Characters of an observation."""

_CUT = " ... (cut)"

_SHORTER = tuple(
    (re.compile(pattern, re.MULTILINE), shorter)
    for pattern, shorter in (
        (r"^(?:No known action matches|Unknown action\.).*", "invalid"),
        (r"^Ambiguous request.*", "which number:"),
        (r"This (?:room|outside location) is called the ([^.]+)\. (?:In it,|Here) you see:", r"\1:"),
        (r"In your inventory, you see:", "inventory:"),
        (r"You also see:", "doors:"),
        (r"A door to the (.+?) \(that is (open|closed)\)", r"\1 \2"),
        (r"^\t(?:the agent|a substance called air)\n", ""),
        (r"a substance called ", ""),
        (r"^\t(?:an?|the) ", ""),
        (r" \(containing nothing\)|\. (?:In|On) the [^:.]+ is: nothing\b", ""),
        (r"\. (?:In|On) the [^:.]+ is: ", " with "),
        (r"\. The [^.]+ door is (open|closed)", r" \1"),
        (r", which is (?:turned )?", " "),
        (r", currently reading a temperature of (-?\d+) degrees celsius", r" \1 degrees"),
    )
)
"""What the ``compact`` style writes for the simulator's phrases, in order."""


def observe(text: str, style: Style, goal: str = "") -> str:
    """A text of the simulator as the agent reads it; ``goal`` is what is to be done, on a line before the first."""
    shown = _condense(text) if style == "compact" else text
    shown = f"{goal}\n{shown}" if goal else shown
    longest = LONGEST[style]
    return shown if len(shown) <= longest else shown[: longest - len(_CUT)] + _CUT


def _condense(text: str) -> str:
    """The text in one line: lists with commas, and nothing about what is not there."""
    for pattern, shorter in _SHORTER:
        text = pattern.sub(shorter, text)
    lines = [" ".join(line.split()).rstrip(". ") for line in text.splitlines()]
    return ", ".join(line for line in lines if line).replace(":, ", ": ").replace(", doors: ", "; doors: ")
