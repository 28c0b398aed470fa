"""Why a command is impossible now."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentgym_rl.envs.babyai.commands import PORTABLE, can_toggle
from agentgym_rl.envs.babyai.level import Level
from agentgym_rl.envs.babyai.view import Sight, look

_ON_OBJECT = re.compile(r"(go to|pickup|go through|toggle and go through) (.+)")
_MAX_QUOTED = 60


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason in two lengths."""

    short: str
    """A few words from a small vocabulary."""
    sentence: str


def refuse(level: Level, command: str) -> Refusal:
    """The reason for a normalised command that is not among the possible ones."""
    if not command:
        return Refusal("no action", "No action was given.")
    if command == "move forward":
        return Refusal("blocked", "You cannot move forward: something is right in front of you.")
    if command == "drop":
        if level.carrying is None:
            return Refusal("hands empty", "You cannot drop anything: you are not carrying anything.")
        return Refusal("blocked", "You cannot drop the object: the place in front of you is taken.")
    if command == "toggle":
        if level.front is not None and level.front.type == "door":
            return Refusal("locked", "You cannot toggle this door: it is locked and you do not carry its key.")
        return Refusal("nothing to toggle", "There is no door or box right in front of you to toggle.")
    if command == "pickup":
        if level.carrying is not None:
            return Refusal("hands full", "You cannot pick up anything: you are already carrying something.")
        return Refusal("nothing to pick up", "There is nothing right in front of you that you could pick up.")
    match = _ON_OBJECT.fullmatch(command)
    if match is None:
        return Refusal("unknown action", f"The action {_quote(command)} is not known.")
    verb, label = match[1], match[2]
    sight = next((sight for sight in look(level) if sight.label == label), None)
    if sight is None:
        return Refusal("not in view", f"There is no {_quote(label)} in view; name an object and its number.")
    return _refuse_on_object(level, verb, sight)


def _refuse_on_object(level: Level, verb: str, sight: Sight) -> Refusal:
    cannot = f"You cannot {verb} {sight.label}"
    if verb == "pickup":
        if sight.kind not in PORTABLE:
            return Refusal("too heavy", f"{cannot}: it cannot be carried.")
        if level.carrying is not None:
            return Refusal("hands full", f"{cannot}: you are already carrying something.")
    if verb in ("go through", "toggle and go through"):
        if sight.kind != "door":
            return Refusal("no door", f"{cannot}: it is not a door.")
        if verb == "go through" and not sight.open:
            return Refusal("closed", f"{cannot}: it is not open. Toggle it first.")
        if verb == "toggle and go through" and sight.open:
            return Refusal("open", f"{cannot}: it is already open. Go through it.")
        if not can_toggle(level, level.at(sight.cell)):
            return Refusal("locked", f"{cannot}: it is locked and you do not carry a key of its color.")
    return Refusal("no path", f"{cannot}: no free path that you have seen leads there.")


def _quote(text: str) -> str:
    return repr(text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "...")
