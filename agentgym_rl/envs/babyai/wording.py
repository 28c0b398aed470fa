"""What the agent reads, in each wording."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from agentgym_rl.envs.babyai.level import World
from agentgym_rl.envs.babyai.refusal import Refusal
from agentgym_rl.envs.babyai.view import Sight, look, wall_ahead
from agentgym_rl.envs.core import Style

INSTRUCTIONS: dict[Style, str] = {
    "agentgym": (
        "You explore a building of one or more rooms to reach a goal that you are given. Each round you read what you "
        "see and answer with your thought and one action.\n\n"
        "The actions are:\n"
        "- turn left\n"
        "- turn right\n"
        "- move forward\n"
        "- go to <obj> <id>: walk up to an object in view and face it\n"
        "- pickup <obj> <id>: walk up to an object in view and take it; you can carry one object\n"
        "- pickup: take the object right in front of you\n"
        "- drop: put what you carry on the free place right in front of you\n"
        "- toggle: open or close the door right in front of you, or open the box\n"
        "- go through <door> <id>: walk into the doorway of an open door\n"
        "- toggle and go through <door> <id>: open a closed door and walk into its doorway; a locked door opens only "
        "while you carry a key of its color\n"
        "- check available actions\n\n"
        "Answer in this format:\n"
        "Thought:\n<your thought>\n\nAction:\n<your action>"
    ),
    "compact": (
        "Reach the goal. Reply `Action: <command>`: turn left, turn right, move forward, go to X, pickup X, drop, "
        "toggle, go through X or toggle and go through X, where X is like red ball 1."
    ),
}


def observe(world: World, style: Style, possible: Collection[str], *, first: bool, note: str = "") -> str:
    """The observation: ``note`` says what became of the last action where the view does not."""
    if style == "compact":
        return _compact(world, note)
    lines = [f"Your goal: {world.mission}"] if first else []
    if note:
        lines.append(note)
    lines.append(_describe(world))
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


def _describe(world: World) -> str:
    sights = look(world)
    parts = [f"There is a {sight.label} {_place(sight)}." for sight in sights] or ["There is no object in view."]
    wall = wall_ahead(world)
    if wall is not None:
        parts.append(f"You are facing a wall {wall} steps away.")
    carried = world.carrying
    parts.append("You are not carrying anything." if carried is None else f"You are carrying a {_name(world)}.")
    return " ".join(parts)


def _place(sight: Sight) -> str:
    if sight.right == 0:
        return f"right in front of you {sight.front} steps away"
    side = "right" if sight.right > 0 else "left"
    return f"{sight.front} steps in front of you and {abs(sight.right)} steps to your {side}"


def _name(world: World) -> str:
    carried = world.carrying
    return "nothing" if carried is None else f"{carried.color} {carried.type}"


def _compact(world: World, note: str) -> str:
    seen = []
    for sight in look(world):
        side = f" right {sight.right}" if sight.right > 0 else f" left {-sight.right}" if sight.right < 0 else ""
        seen.append(f"{sight.label} front {sight.front}{side}")
    wall = wall_ahead(world)
    if wall is not None:
        seen.append(f"wall front {wall}")
    text = f"Goal: {world.mission}. See: {'; '.join(seen) or 'nothing'}. Carry: {_name(world)}."
    return f"{note} {text}" if note else text
