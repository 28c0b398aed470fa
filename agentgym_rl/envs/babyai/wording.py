"""What the agent reads, in each wording."""

import re
from collections.abc import Collection, Iterable

from agentgym_rl.envs.babyai.commands import PORTABLE, can_toggle
from agentgym_rl.envs.babyai.level import Level
from agentgym_rl.envs.babyai.view import Sight, look, wall_ahead
from agentgym_rl.envs.core import Style

_ON_OBJECT = re.compile(r"(go to|pickup|go through|toggle and go through) (.+)")
_MAX_QUOTED = 60


def observe(level: Level, style: Style, possible: Collection[str], *, first: bool, note: str = "") -> str:
    """The observation: ``note`` says what became of the last action where the view does not."""
    if style == "compact":
        return _compact(level, note)
    lines = [f"Your goal: {level.mission}"] if first else []
    if note:
        lines.append(note)
    lines.append(_describe(level))
    if possible:
        lines.append(f"Available actions: {quoted_list(possible)}")
    return "\n".join(lines)


def quoted_list(commands: Iterable[str]) -> str:
    """Commands as AgentGym lists them: ``["turn left", "turn right"]``."""
    return "[" + ", ".join(f'"{command}"' for command in commands) + "]"


def refusal_note(level: Level, command: str, style: Style) -> str:
    """Why a normalised command is not among the possible ones."""
    short, sentence = _reason(level, command)
    return f"Invalid: {short}." if style == "compact" else sentence


def ending_note(style: Style, *, success: bool, out_of_steps: bool) -> str:
    """The last line of an episode."""
    if style == "compact":
        return "Done." if success else "Out of steps." if out_of_steps else "Failed."
    if success:
        return "The task is completed."
    return "You have run out of steps." if out_of_steps else "The task has failed and cannot be completed any more."


def _describe(level: Level) -> str:
    sights = look(level)
    parts = [f"There is a {sight.label} {place(sight)}." for sight in sights] or ["There is no object in view."]
    wall = wall_ahead(level)
    if wall is not None:
        parts.append(f"You are facing a wall {wall} steps away.")
    carried = level.carrying
    parts.append("You are not carrying anything." if carried is None else f"You are carrying a {_name(level)}.")
    return " ".join(parts)


def place(sight: Sight) -> str:
    """Where an object is."""
    if sight.right == 0:
        return f"right in front of you {sight.front} steps away"
    side = "right" if sight.right > 0 else "left"
    return f"{sight.front} steps in front of you and {abs(sight.right)} steps to your {side}"


def _name(level: Level) -> str:
    carried = level.carrying
    return "nothing" if carried is None else f"{carried.color} {carried.type}"


def _compact(level: Level, note: str) -> str:
    seen = []
    for sight in look(level):
        side = f" right {sight.right}" if sight.right > 0 else f" left {-sight.right}" if sight.right < 0 else ""
        seen.append(f"{sight.label} front {sight.front}{side}")
    wall = wall_ahead(level)
    if wall is not None:
        seen.append(f"wall front {wall}")
    text = f"Goal: {level.mission}. See: {'; '.join(seen) or 'nothing'}. Carry: {_name(level)}."
    return f"{note} {text}" if note else text


def _reason(level: Level, command: str) -> tuple[str, str]:
    """In a few words from a small vocabulary, and in a sentence."""
    if not command:
        return "no action", "No action was given."
    if command == "move forward":
        return "blocked", "You cannot move forward: something is right in front of you."
    if command == "drop":
        if level.carrying is None:
            return "hands empty", "You cannot drop anything: you are not carrying anything."
        return "blocked", "You cannot drop the object: the place in front of you is taken."
    if command == "toggle":
        if level.front is not None and level.front.type == "door":
            return "locked", "You cannot toggle this door: it is locked and you do not carry its key."
        return "nothing to toggle", "There is no door or box right in front of you to toggle."
    if command == "pickup":
        if level.carrying is not None:
            return "hands full", "You cannot pick up anything: you are already carrying something."
        return "nothing to pick up", "There is nothing right in front of you that you could pick up."
    match = _ON_OBJECT.fullmatch(command)
    if match is None:
        return "unknown action", f"The action {_quote(command)} is not known."
    verb, label = match[1], match[2]
    sight = next((sight for sight in look(level) if sight.label == label), None)
    if sight is None:
        return "not in view", f"There is no {_quote(label)} in view; name an object and its number."
    return _reason_on_object(level, verb, sight)


def _reason_on_object(level: Level, verb: str, sight: Sight) -> tuple[str, str]:
    cannot = f"You cannot {verb} {sight.label}"
    if verb == "pickup":
        if sight.kind not in PORTABLE:
            return "too heavy", f"{cannot}: it cannot be carried."
        if level.carrying is not None:
            return "hands full", f"{cannot}: you are already carrying something."
    if verb in ("go through", "toggle and go through"):
        if sight.kind != "door":
            return "no door", f"{cannot}: it is not a door."
        if verb == "go through" and not sight.open:
            return "closed", f"{cannot}: it is not open. Toggle it first."
        if verb == "toggle and go through" and sight.open:
            return "open", f"{cannot}: it is already open. Go through it."
        if not can_toggle(level, level.at(sight.cell)):
            return "locked", f"{cannot}: it is locked and you do not carry a key of its color."
    return "no path", f"{cannot}: no free path that you have seen leads there."


def _quote(text: str) -> str:
    return repr(text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "...")
