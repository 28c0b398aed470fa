"""The commands that are possible now, each with the primitive actions it stands for."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from minigrid.core.actions import Actions
from minigrid.core.world_object import WorldObj

from agentgym_rl.envs.babyai.geometry import Plan
from agentgym_rl.envs.babyai.level import Level
from agentgym_rl.envs.babyai.paths import PathTree
from agentgym_rl.envs.babyai.view import look

CHECK = "check available actions"
PORTABLE = ("ball", "box", "key")
"""Kinds of objects that can be carried."""


def normalize(command: str) -> str:
    """Lower case, single spaces, one name for each command.

    AgentGym's prompt writes ``pick up`` where its environment takes ``pickup``: both are the same here, as are
    ``go forward`` and ``move forward``.
    """
    words = re.sub(r"^pick up\b", "pickup", " ".join(command.lower().split()))
    return "move forward" if words == "go forward" else words


def can_toggle(level: Level, thing: WorldObj | None) -> bool:
    """Whether toggling does something: boxes, doors, and locked doors whose key is carried."""
    if thing is None or thing.type not in ("box", "door"):
        return False
    if thing.type == "box" or not thing.is_locked:
        return True
    carried = level.carrying
    return carried is not None and carried.type == "key" and carried.color == thing.color


def options(level: Level) -> dict[str, Plan]:
    """Every command that is possible now, in a fixed order, with its plan.

    Paths lead over cells that were seen, never through objects or closed doors. ``go to`` an object that is already
    in front costs one idle step (minigrid's ``done``), so that a mission to go there counts as fulfilled.
    """
    front = level.front
    plans: dict[str, Plan] = {"turn left": (Actions.left,), "turn right": (Actions.right,)}
    if front is None or front.can_overlap():
        plans["move forward"] = (Actions.forward,)
    if level.carrying is not None and front is None:
        plans["drop"] = (Actions.drop,)
    if level.carrying is None and front is not None and front.type in PORTABLE:
        plans["pickup"] = (Actions.pickup,)
    if can_toggle(level, front):
        plans["toggle"] = (Actions.toggle,)

    paths = PathTree(level.pose, level.free)
    for sight in look(level):
        path = paths.facing(sight.cell)
        if path is not None:
            plans[f"go to {sight.label}"] = path or (Actions.done,)
            if sight.kind in PORTABLE and level.carrying is None:
                plans[f"pickup {sight.label}"] = (*path, Actions.pickup)
            if sight.kind == "door" and not sight.open and can_toggle(level, level.at(sight.cell)):
                plans[f"toggle and go through {sight.label}"] = (*path, Actions.toggle, Actions.forward)
        if sight.open and (through := paths.onto(sight.cell)) is not None:
            plans[f"go through {sight.label}"] = through
    plans[CHECK] = ()
    return plans


@dataclass(frozen=True, slots=True)
class Rules:
    """What the commands of a wording are and do."""

    level: type[Level] = Level
    options: Callable[[Level], dict[str, Plan]] = options
    """See :func:`options`."""


OWN = Rules()
