"""What the agent reads, in each wording."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from agentgym_rl.envs.babyai.level import Level
from agentgym_rl.envs.babyai.refusal import Refusal
from agentgym_rl.envs.babyai.view import Sight, look, wall_ahead
from agentgym_rl.envs.core import Style


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


def refusal_note(refusal: Refusal, style: Style) -> str:
    return f"Invalid: {refusal.short}." if style == "compact" else refusal.sentence


def ending_note(style: Style, *, success: bool, out_of_steps: bool) -> str:
    """The last line of an episode."""
    if style == "compact":
        return "Done." if success else "Out of steps." if out_of_steps else "Failed."
    if success:
        return "The task is completed."
    return "You have run out of steps." if out_of_steps else "The task has failed and cannot be completed any more."


def _describe(level: Level) -> str:
    sights = look(level)
    parts = [f"There is a {sight.label} {_place(sight)}." for sight in sights] or ["There is no object in view."]
    wall = wall_ahead(level)
    if wall is not None:
        parts.append(f"You are facing a wall {wall} steps away.")
    carried = level.carrying
    parts.append("You are not carrying anything." if carried is None else f"You are carrying a {_name(level)}.")
    return " ".join(parts)


def _place(sight: Sight) -> str:
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
