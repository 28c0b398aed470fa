"""Shortest paths over the cells the agent may step on, counted in primitive actions."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from minigrid.core.actions import Actions

from agentgym_rl.envs.babyai.geometry import Cell, Plan, Pose, facing_poses, moves, offset, turned


class PathTree:
    """Shortest plans from one pose to every pose it can reach (Dijkstra; forward is tried first).

    Args:
        start: where the plans begin.
        free: the cells that can be stepped on.
        toll: what stepping on a cell costs besides the primitive itself.
    """

    def __init__(self, start: Pose, free: Callable[[Cell], bool], toll: Callable[[Cell], int] | None = None) -> None:
        self._parent: dict[Pose, tuple[Pose, Actions] | None] = {start: None}
        self._depth: dict[Pose, int] = {}
        cost = {start: 0}
        layers = {0: [start]}
        depth = 0
        while layers:
            for pose in layers.pop(depth, ()):
                if pose in self._depth:
                    continue
                self._depth[pose] = depth
                for action, after in moves(pose):
                    if after in self._depth:
                        continue
                    total = depth + 1
                    if action is Actions.forward:
                        if not free(after[:2]):
                            continue
                        total += toll(after[:2]) if toll else 0
                    if total < cost.get(after, total + 1):
                        cost[after] = total
                        self._parent[after] = (pose, action)
                        layers.setdefault(total, []).append(after)
            depth += 1

    def __iter__(self) -> Iterator[Pose]:
        """The reachable poses, nearest first."""
        return iter(self._depth)

    def depth(self, pose: Pose) -> int | None:
        """Primitive actions and tolls to the pose, or None if it cannot be reached."""
        return self._depth.get(pose)

    def to(self, pose: Pose) -> Plan:
        """The plan that ends in a reachable pose."""
        plan: list[Actions] = []
        while (step := self._parent[pose]) is not None:
            pose, action = step
            plan.append(action)
        return tuple(reversed(plan))

    def cells_to(self, pose: Pose) -> list[Cell]:
        """The cells on the way to a reachable pose, start and end included."""
        cells = [pose[:2]]
        while (step := self._parent[pose]) is not None:
            pose = step[0]
            cells.append(pose[:2])
        return cells[::-1]

    def _nearest(self, poses: Iterable[Pose]) -> Plan | None:
        reachable = [pose for pose in poses if pose in self._depth]
        return self.to(min(reachable, key=lambda pose: self._depth[pose])) if reachable else None

    def facing(self, cell: Cell) -> Plan | None:
        """The shortest plan after which the cell is right in front; None if there is none."""
        return self._nearest(facing_poses(cell))

    def onto(self, cell: Cell) -> Plan | None:
        """The shortest plan that ends on the cell; None if there is none."""
        return self._nearest((*cell, direction) for direction in range(4))


def distances(goals: Iterable[Pose], free: Callable[[Cell], bool]) -> dict[Pose, int]:
    """Primitive actions from every pose to the nearest goal pose (breadth-first search backwards)."""
    depth = dict.fromkeys(goals, 0)
    queue = deque(depth)
    while queue:
        pose = queue.popleft()
        before = [turned(pose, 1), turned(pose, -1)]
        if free(pose[:2]) and free(behind := offset(pose, -1, 0)):
            before.append((*behind, pose[2]))
        for neighbour in before:
            if neighbour not in depth:
                depth[neighbour] = depth[pose] + 1
                queue.append(neighbour)
    return depth
