"""The oracle: walk up to the target of the mission if it is known, else look around."""

from collections.abc import Iterable
from typing import Any

from minigrid.core.actions import Actions
from minigrid.envs.babyai.core.verifier import GoToInstr, ObjDesc, OpenInstr, PickupInstr, PutNextInstr, SeqInstr

from agentgym_rl.envs.babyai.bot import solve_with_bot
from agentgym_rl.envs.babyai.commands import OWN, PORTABLE, Rules, can_toggle
from agentgym_rl.envs.babyai.geometry import DIRECTIONS, Cell, Pose, ahead, distance, facing_poses
from agentgym_rl.envs.babyai.known_map import KnownMap
from agentgym_rl.envs.babyai.level import in_order
from agentgym_rl.envs.babyai.walker import Ended, Exhausted, Stuck, Walker
from agentgym_rl.envs.core import OracleUnavailable


def solve(index: int, max_turns: int, rules: Rules = OWN) -> list[str]:
    """Commands that fulfil the mission of a task.

    The first solver knows only what it has seen. If it needs more than ``max_turns`` or fails, a second one knows the
    whole map, and the shorter solution is taken. minigrid's bot is the last resort, unless the second solver has tried
    everything.

    Raises:
        OracleUnavailable: all fail.
    """
    solutions: list[list[str]] = []
    failures: list[Stuck] = []
    for informed in (False, True):
        try:
            solutions.append(solve_level(index, rules, informed=informed))
        except Stuck as failure:
            failures.append(failure)
        if solutions and len(solutions[0]) <= max_turns:
            break
    if not solutions and not isinstance(failures[-1], Exhausted):
        try:
            solutions.append(solve_with_bot(index, rules))
        except Stuck as failure:
            failures.append(failure)
    if not solutions:
        raise OracleUnavailable(f"babyai_{index}: {'; '.join(map(str, failures))}")
    return min(solutions, key=len)


def solve_level(index: int, rules: Rules = OWN, *, informed: bool) -> list[str]:
    """The commands with which a solver fulfils the mission of a task; ``informed`` shows it the whole map.

    Raises:
        Stuck: it does not.
    """
    solver = Solver(index, rules, informed=informed)
    try:
        while True:
            solver.pursue()
    except Ended as end:
        if end.success:
            return solver.commands
        raise Stuck(f"{solver.level.mission!r} ended without success") from None


class Solver(Walker):
    """Pursues the mission of one level."""

    def __init__(self, index: int, rules: Rules = OWN, *, informed: bool = False) -> None:
        super().__init__(index, rules, informed=informed)
        self._unlocking: set[Cell] = set()

    def pursue(self) -> None:
        """One command, or a few that belong together, towards the next clause of the mission."""
        clause: Any = next_clause(self.level.instruction)
        if isinstance(clause, GoToInstr):
            self._go_to(clause)
        elif isinstance(clause, OpenInstr):
            self._open(targets(self.known, clause.desc), through_doors=not clause.strict)
        elif isinstance(clause, PickupInstr):
            self._pick_up(targets(self.known, clause.desc))
        elif isinstance(clause, PutNextInstr):
            self._put_next(clause)
        else:
            raise Stuck(f"no routine for {type(clause).__name__}")

    def _go_to(self, clause: GoToInstr) -> None:
        places = goal_places(self.known, clause)
        if ahead(self.level.pose) in places:  # minigrid's verifier looks only after an action
            idle = [command for command, plan in self.options.items() if plan == (Actions.done,)]
            self.do(idle[0] if idle else "turn left")
        else:
            self._approach(_facing(places))

    def _open(self, doors: Iterable[Cell], *, through_doors: bool = True) -> None:
        cells = list(doors)
        can_open = [cell for cell in cells if can_toggle(self.level, self.level.at(cell))]
        if cells and not can_open:
            self._fetch_key(cells)
        else:
            self._approach(_facing(can_open), Actions.toggle, through_doors=through_doors)

    def _put_next(self, clause: PutNextInstr) -> None:
        level = self.level
        if not any(level.carrying is thing for thing in clause.desc_move.obj_set):
            self._pick_up(targets(self.known, clause.desc_move))
            return
        fixed = targets(self.known, clause.desc_fixed)
        beside = [(x + dx, y + dy) for x, y in fixed for dx, dy in DIRECTIONS]
        places = [cell for cell in beside if self.known.empty(cell)]
        occupied = [cell for cell in beside if (thing := level.at(cell)) is not None and thing.type in PORTABLE]
        if not places and occupied:
            self._put_down()
            self._remove(min(occupied, key=lambda cell: distance(cell, level.pose[:2])))
        else:
            self._approach(_facing(places), Actions.drop)

    def _pick_up(self, cells: Iterable[Cell]) -> None:
        if self.level.carrying is not None:
            self._put_down()
        else:
            self._approach(_facing(cells), Actions.pickup)

    def _put_down(self, goal: Pose | None = None, avoid: Cell | None = None) -> None:
        """Put the carried object where it blocks no way, or at least not that to ``goal``."""
        pose = self.known.drop_pose(goal, self._unlocking) if goal else None
        while self.level.carrying is not None:
            places = [cell for cell in self.known.resting_places() if cell != avoid]
            if not self.walk([pose] if pose else _facing(places), self.known.passable(doors=False), Actions.drop):
                self.act(Actions.drop)

    def _fetch_key(self, doors: Iterable[Cell]) -> None:
        colors = {door.color for cell in doors if (door := self.level.at(cell)) is not None}
        self._pick_up(cell for cell, thing in self.known.things() if thing.type == "key" and thing.color in colors)

    def _approach(self, goals: list[Pose], then: Actions | None = None, *, through_doors: bool = True) -> None:
        """Get nearer to one of the poses, or look for something new, or clear the way, or open a box."""
        free = self.known.passable(doors=through_doors)
        if self.walk(goals, free, then) or self.look_around(free):
            return
        if not self._clear_way(goals):
            boxes = [cell for cell, thing in self.known.things() if thing.type == "box"]
            if not self.walk(_facing(boxes), free, Actions.toggle):
                raise Exhausted("nothing is left to try")

    def _clear_way(self, goals: list[Pose]) -> bool:
        """Remove the first obstacle on the way to a goal, or to a view of something new."""
        paths = self.known.paths_past_obstacles(self._unlocking)
        reachable = [pose for pose in goals if paths.depth(pose) is not None]
        goal = min(reachable, key=lambda pose: paths.depth(pose) or 0, default=None)
        goal = goal or self.known.viewpoint(paths)
        if goal is None:
            return False
        free = self.known.passable()
        obstacle = next((cell for cell in paths.cells_to(goal) if not free(cell)), None)
        if obstacle is None:
            return False
        thing = self.level.at(obstacle)
        if thing is not None and thing.type == "door":
            self._unlock(obstacle)
        else:
            self._put_down(goal)
            self._remove(obstacle, goal)
        return True

    def _remove(self, obstacle: Cell, goal: Pose | None = None) -> None:
        """Carry an object out of the way to ``goal``."""
        thing = self.level.at(obstacle)
        while self.level.carrying is not thing:
            if not self.walk(facing_poses(obstacle), self.known.passable(), Actions.pickup):
                raise Stuck("an obstacle cannot be reached")
        self._put_down(goal, avoid=obstacle)

    def _unlock(self, cell: Cell) -> None:
        door: Any = self.level.at(cell)
        self._unlocking.add(cell)
        while door.is_locked:
            self._open([cell])
        self._unlocking.discard(cell)


def next_clause(instruction: Any) -> Any:
    """The first clause of a mission that minigrid's verifier does not count as fulfilled."""
    if not isinstance(instruction, SeqInstr):
        return instruction
    first, second, first_done = in_order(instruction)
    return next_clause(second if first_done else first)


def targets(known: KnownMap, description: ObjDesc) -> list[Cell]:
    """The cells of the described objects whose places are known; minigrid counts walls as grey objects."""
    ids = {id(thing) for thing in description.obj_set}
    return [cell for cell, thing in known.things() if id(thing) in ids and thing.type != "wall"]


def goal_places(known: KnownMap, clause: GoToInstr) -> list[Cell]:
    """The cells a ``go to`` clause accepts: where its objects lay at the start or were dropped since."""
    return [cell for x, y in clause.desc.obj_poss if (cell := (int(x), int(y))) in known.cells]


def _facing(cells: Iterable[Cell]) -> list[Pose]:
    return [pose for cell in cells for pose in facing_poses(cell)]
