"""BabyAI to the letter of AgentGym's server: its sentences, its lists of actions, and how far its commands walk.

The sentences and quirks are those of its ``agentenv_babyai`` (MIT) on the wire, with minigrid 2.3, which it ran on.
Rewards and endings are not: see :class:`agentgym_rl.envs.babyai.BabyAI`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from minigrid.core.actions import Actions
from minigrid.core.world_object import WorldObj
from minigrid.envs.babyai.core.levelgen import LevelGen

from agentgym_rl.envs.babyai.commands import CHECK, PORTABLE, Rules
from agentgym_rl.envs.babyai.geometry import Cell, Plan, Pose, ahead, moves, offset
from agentgym_rl.envs.babyai.level import Level, Outcome
from agentgym_rl.envs.babyai.levels import LEVEL_IDS
from agentgym_rl.envs.babyai.view import Sight, look
from agentgym_rl.envs.babyai.wording import place, quoted_list
from agentgym_rl.envs.core import Observation

_SOLID = ("wall", *PORTABLE)
_THROUGH_DOOR = (Actions.toggle, Actions.forward)


def _keep(env: Any, room: Any) -> None:
    vars(env)["locked_room"] = room or vars(env).get("locked_room")


@cache
def _with_kept_room(kind: Any) -> Any:
    """A level generator whose locked room stays what it was where the next level has none.

    minigrid had this fault. It changes the missions of some levels.
    """
    return type(kind.__name__, (kind,), {"locked_room": property(lambda env: vars(env)["locked_room"], _keep)})


class ExactLevel(Level):
    """A level as AgentGym's server has it."""

    ids = tuple("BabyAI-GoToObjS4-v0" if name == "BabyAI-GoToObjS6-v1" else name for name in LEVEL_IDS)
    """Its GoToObjS6 is minigrid's former v0, whose room was that of S4."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.completed = False
        """Whether the server says so after the last plan."""
        self._carried_here: Cell | None = None
        if self.carrying is not None:  # its first view is older than the agent's taking the object
            self._carried_here = self.carrying.init_pos
            self.minigrid.grid.set(*self._carried_here, self.carrying)

    def _generate(self, seed: int) -> None:
        """Twice, as the server does."""
        if isinstance(self.minigrid, LevelGen):
            kind: Any = type(self.minigrid)
            self.minigrid.__class__ = _with_kept_room(kind)
            super()._generate(seed)
        super()._generate(seed)

    @property
    def mission(self) -> str:
        """The goal does not tell the order of its clauses."""
        return super().mission.replace("then", "and").replace("after you", "and")

    def execute(self, plan: Plan) -> Outcome:
        """Carry out primitives until one changes nothing in view.

        The server does not stop where the level ends, either, and judges the last primitive alone. The outcome is that
        of the first one that ended the level.
        """
        end = Outcome()
        for action in plan:
            before = self._picture()
            if self._carried_here is not None:
                self.minigrid.grid.set(*self._carried_here, None)
                self._carried_here = None
            last = super().execute((action,))
            self.completed = last.terminated
            end = end if end.over else last
            if self._picture() == before:
                break
        return end

    def _picture(self) -> Collection[object]:
        """What minigrid's image of the view shows."""
        here = self.view[0, 0]
        shown = ((place, self.carrying if cell == here else self.at(cell)) for place, cell in self.view.items())
        return sorted((place, thing.encode() if thing else ()) for place, thing in shown)


@dataclass(frozen=True, slots=True)
class Scene:
    """What the server makes of a level's present state."""

    text: str
    actions: dict[str, Plan]
    refusals: dict[str, str]
    """What it says of actions that it knows and does not list."""


RULES = Rules(ExactLevel, lambda level: survey(level).actions)


class ExactSession:
    """One task in the server's words."""

    def __init__(self, index: int) -> None:
        self.level = ExactLevel(index)
        self._scene = survey(self.level)

    def first(self) -> Observation:
        return self._listed(f"Your goal: {self.level.mission}\n{self._scene.text}")

    def step(self, action: str) -> tuple[Observation, Outcome, bool]:
        """The observation, how the action went, and whether it was refused."""
        action = action.lower().strip()
        plan = self._scene.actions.get(action)
        if "check" in action:
            return self._told(f"You can take the following actions: {', '.join(self._scene.actions)}")
        if not action or plan == ():
            return self._told("No change in state.", refused=not action)
        if plan is None:
            unknown = "The action is not recognized. Please check valid actions."
            return self._told(self._scene.refusals.get(action, unknown), refused=True)
        outcome = self.level.execute(plan)
        self._scene = survey(self.level)
        ending = "\n The task is completed." if self.level.completed else ""
        return self._listed(self._scene.text + ending), outcome, False

    def _told(self, text: str, *, refused: bool = False) -> tuple[Observation, Outcome, bool]:
        return self._listed(text), Outcome(), refused

    def _listed(self, text: str) -> Observation:
        """Every observation ends with the list of actions, the last one, too."""
        return Observation(f"{text}\nAvailable actions: {quoted_list(self._scene.actions)}", tuple(self._scene.actions))


def survey(level: Level) -> Scene:
    """Describe what is in view, and find what can be done."""
    seen = look(level)
    solid, barrier = _solid(level), _barrier(level)
    scene = Scene(
        _text(level, seen, solid, barrier), {"turn left": (Actions.left,), "turn right": (Actions.right,)}, {}
    )
    if barrier is not None and barrier[1] == 1:
        scene.refusals["move forward"] = "There is a barrier in front of you, you can't move forward."
    else:
        scene.actions["move forward"] = (Actions.forward,)
    paths = _Paths(level.pose, solid)
    if level.carrying is None:
        _list_walks(scene, paths, "pickup", [sight for sight in seen if sight.kind != "door"], (Actions.pickup,))
        scene.refusals["drop"] = "You cannot drop the object, as you are not carrying anything."
    elif ahead(level.pose) in solid:
        scene.refusals["drop"] = "You cannot drop the object, as there is already an object in front of you."
    else:
        scene.actions["drop"] = (Actions.drop,)
    _list_doors(scene, paths, [sight for sight in seen if sight.kind == "door"], level.carrying)
    _list_walks(scene, paths, "go to", seen)
    scene.actions[CHECK] = ()
    return scene


def _solid(level: Level) -> set[Cell]:
    """The cells in view that the search walks around; none above or left of the grid, whose numbers are negative."""
    things = {cell: level.at(cell) for cell in level.view.values() if cell != level.pose[:2] and min(cell) >= 0}
    return {cell for cell, thing in things.items() if thing is not None and thing.type in _SOLID}


def _barrier(level: Level) -> tuple[str, int] | None:
    """Kind of the first wall or box straight ahead, and steps to it."""
    for front in range(1, len(level.view)):
        cell = level.view.get((front, 0))
        if cell is None or min(cell) < 0:
            return None
        thing = level.at(cell)
        if thing is not None and thing.type in ("wall", "box"):
            return thing.type, front
    return None


def _text(level: Level, seen: Collection[Sight], solid: Collection[Cell], barrier: tuple[str, int] | None) -> str:
    if seen or solid:
        text = "In front of you in this room, you can see several objects: "
        text += "".join(f"There is a {sight.label} {place(sight)}.  " for sight in seen)
    else:
        text = "You cannot see any objects within sight."
    text += "The room has walls around you. "
    if barrier is not None:
        text += f"You are facing a {barrier[0]} {barrier[1]} steps away. "
    carried = level.carrying
    if carried is None:
        return text + "You are not carrying anything."
    return text + f"You are carrying a {carried.color} {carried.type}."


def _list_walks(scene: Scene, paths: _Paths, verb: str, seen: Iterable[Sight], then: Plan = ()) -> None:
    """Only the objects that can be reached are counted: their numbers may differ from those of the text."""
    counts: Counter[str] = Counter()
    for sight in seen:
        label = f"{sight.name} {counts[sight.name] + 1}"
        path = paths.facing(sight.cell)
        if path is None:
            scene.refusals[f"{verb} {label}"] = f"You cannot {verb} {label}, as there is no path leading to it."
        else:
            counts[sight.name] += 1
            scene.actions[f"{verb} {label}"] = path + then


def _list_doors(scene: Scene, paths: _Paths, doors: Iterable[Sight], carrying: WorldObj | None) -> None:
    counts: dict[str, int] = {}
    for door in doors:
        counts[door.name] = door.number
        through, toggle = f"go through {door.label}", f"toggle and go through {door.label}"
        if door.open:
            path = paths.onto(door.cell)
            if path is None:
                scene.refusals[through] = f"You cannot {through}, as there is no path leading to it."
            else:
                scene.actions[through] = path
            continue
        color, state, _ = door.name.split()
        if state == "closed":
            scene.refusals[through] = f"You cannot {through}, as it is closed. You should toggle it first."
        elif carrying is None or carrying.type != "key":
            scene.refusals[toggle] = f"You cannot {toggle}, as you are not carrying a key."
            continue
        elif carrying.color != color:
            scene.refusals[toggle] = (
                f"You cannot {toggle}, as the color of the key you are carrying does not match the color of door."
            )
            continue
        path = paths.facing(door.cell)
        if path is None:  # the counts stand where the number should
            scene.refusals[toggle] = (
                f"You cannot toggle and go through {door.name} {counts}, as there is no path leading to it."
            )
        else:
            scene.actions[toggle] = path + _THROUGH_DOOR
        if path == ():
            scene.actions["toggle"] = (Actions.toggle,)


class _Paths:
    """The server's search: breadth first within a square about the view, through what is not seen and closed doors.

    It marks a pose when it takes it from the queue, not when it puts it there, and keeps the last way it came by; so a
    plan is not always a shortest one. One search does for all goals.
    """

    def __init__(self, start: Pose, solid: Collection[Cell]) -> None:
        self._start = start
        self._parent: dict[Pose, tuple[Pose, Actions]] = {}
        self._facing: dict[Cell, Pose] = {}
        self._onto: dict[Cell, Pose] = {}
        columns, rows = _bounds(start)
        reached: set[Pose] = set()
        queue = deque([start])
        while queue:
            pose = queue.popleft()
            if pose not in reached:
                reached.add(pose)
                self._facing.setdefault(ahead(pose), pose)
                self._onto.setdefault(pose[:2], pose)
            for action, after in moves(pose):
                x, y, _ = after
                if after not in reached and x in columns and y in rows and (x, y) not in solid:
                    self._parent[after] = pose, action
                    queue.append(after)

    def facing(self, cell: Cell) -> Plan | None:
        """The plan after which the cell is right in front."""
        return self._to(self._facing.get(cell))

    def onto(self, cell: Cell) -> Plan | None:
        """The plan that ends on the cell."""
        return self._to(self._onto.get(cell))

    def _to(self, pose: Pose | None) -> Plan | None:
        if pose is None:
            return None
        plan: list[Actions] = []
        while pose != self._start:
            pose, action = self._parent[pose]
            plan.append(action)
        return tuple(reversed(plan))


def _bounds(pose: Pose) -> tuple[range, range]:
    """Columns and rows of the square; the side that is counted down is one longer."""
    corner, diagonal = offset(pose, 6, -3), offset((0, 0, pose[2]), -1, 1)
    sides = []
    for begin, step in zip(corner, diagonal, strict=True):
        end = begin + 7 * step
        sides.append(range(end, begin + 1) if end < begin else range(begin, end))
    return sides[0], sides[1]
