"""What an agent may do in a browser: WebArena's commands, and a few more that BrowserGym's functions need."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from agentgym_rl.envs.tables import load
from agentgym_rl.envs.texts import FunctionTexts
from agentgym_rl.envs.tools import Tool

MAX_COMMAND_CHARACTERS = 10_000

_ID, _NUMBER, _TEXT = r"\[?(\d{1,9})\]?", r"\[(-?\d{1,5}(?:\.\d+)?)\]", r"\[(.*)\]"

FORMS = {
    "click": f"{_ID}",
    "dblclick": f"{_ID}",
    "hover": f"{_ID}",
    "type": rf"{_ID} ?\[(.*?)\](?: ?\[([01])\])?",
    "fill": f"{_ID} ?{_TEXT}",
    "select": f"{_ID} ?{_TEXT}",
    "drag": f"{_ID} ?{_ID}",
    "mouse_click": f"{_NUMBER} ?{_NUMBER}",
    "mouse_drag": f"{_NUMBER} ?{_NUMBER} ?{_NUMBER} ?{_NUMBER}",
    "press": r"\[(.+)\]",
    "scroll": r"\[?(?:direction=)?(down|up)\]?",
    "wait": "",
    "tab_focus": _ID,
    "new_tab": "",
    "close_tab": "",
    "goto": r"\[?(\S+?)\]?",
    "go_back": "",
    "go_forward": "",
    "stop": r"(?:\[(.*)\])?",
}
"""The arguments of each command, as a pattern."""

_PATTERNS = {name: re.compile(form, re.DOTALL) for name, form in FORMS.items()}


class Refused(Exception):
    """A command that cannot be carried out; the message is for the agent."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that was read."""

    name: str
    arguments: tuple[str, ...]
    """As written; one that was left out is empty."""


def read(text: str, known: Collection[str]) -> Command:
    """Read a command.

    Args:
        known: names of the commands that may be used.

    Raises:
        Refused: it is none of them, or its arguments are others.
    """
    if len(text) > MAX_COMMAND_CHARACTERS:
        raise Refused(f"the action has {len(text)} characters; at most {MAX_COMMAND_CHARACTERS} are read")
    head = re.match(r"\s*(\w+)\s*", text)
    name = head[1] if head else ""
    if head is None or name not in known:
        raise Refused(f"there is no action {name[:40]!r}; there are {', '.join(known)}")
    match = _PATTERNS[name].fullmatch(text[head.end() :].strip())
    if match is None:
        raise Refused(f"the arguments of {name} are others, each in square brackets")
    return Command(name, tuple(argument or "" for argument in match.groups()))


_FUNCTIONS = load(Path(__file__).with_name("functions.toml"), FunctionTexts).tools


def functions(known: Collection[str]) -> tuple[Tool, ...]:
    """The functions, with BrowserGym's names where it has one, that stand for commands."""
    return tuple(tool for tool in _FUNCTIONS if tool.commands[0].split()[0] in known)
