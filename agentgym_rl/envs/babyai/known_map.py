"""The map to plan with: known cells, doors that can be opened and, at need, obstacles that can be removed."""

from collections.abc import Callable, Container, Iterator

from minigrid.core.world_object import WorldObj

from agentgym_rl.envs.babyai.commands import PORTABLE, can_toggle
from agentgym_rl.envs.babyai.geometry import Cell, Pose, facing_poses
from agentgym_rl.envs.babyai.level import Level
from agentgym_rl.envs.babyai.paths import PathTree

Passable = Callable[[Cell], bool]
"""A test whether a cell can be stepped on."""

_OBSTACLE_TOLL = 50
_TRIED_PLACES = 10


class KnownMap:
    """A level as far as it is known.

    Args:
        everything: all cells are known, not only those that were seen.
    """

    def __init__(self, level: Level, *, everything: bool = False) -> None:
        self.level = level
        self.cells = level.all_cells() if everything else level.seen
        """The known cells; grows with what is seen."""

    def things(self) -> Iterator[tuple[Cell, WorldObj]]:
        """The objects on known cells, column by column."""
        for cell in sorted(self.cells):
            thing = self.level.at(cell)
            if thing is not None:
                yield cell, thing

    def empty(self, cell: Cell) -> bool:
        """Whether nothing is known to lie there."""
        return cell in self.cells and self.level.at(cell) is None

    def passable(
        self, *, doors: bool = True, obstacles: bool = False, barred: Container[Cell] = frozenset()
    ) -> Passable:
        """A test for known cells.

        Args:
            doors: closed doors that the agent can open count as passable.
            obstacles: so do objects that can be carried away and locked doors.
            barred: locked doors that do not, whatever ``obstacles`` says.
        """

        def test(cell: Cell) -> bool:
            if cell not in self.cells:
                return False
            thing = self.level.at(cell)
            if thing is None or thing.can_overlap():
                return True
            if thing.type == "door":
                return (doors and can_toggle(self.level, thing)) or (obstacles and cell not in barred)
            return obstacles and thing.type in PORTABLE

        return test

    def paths_past_obstacles(
        self, barred: Container[Cell] = frozenset(), *, start: Pose | None = None, filled: Cell | None = None
    ) -> PathTree:
        """Paths that lead over obstacles, as few as possible.

        Args:
            barred: locked doors that stay closed.
            start: where the paths begin; the agent's pose by default.
            filled: a cell that is taken to hold an obstacle.
        """
        free = self.passable()
        anything = self.passable(obstacles=True, barred=barred)

        def toll(cell: Cell) -> int:
            return 0 if free(cell) and cell != filled else _OBSTACLE_TOLL

        return PathTree(start or self.level.pose, anything, toll)

    def gain(self, pose: Pose) -> int:
        """How many unknown cells come into view from a pose; a closed door there is taken as open."""
        thing = self.level.at(pose[:2])
        if thing is None or thing.type != "door" or thing.is_open:
            return len(self.level.view_from(pose) - self.cells)
        thing.is_open = True
        try:
            return len(self.level.view_from(pose) - self.cells)
        finally:
            thing.is_open = False

    def viewpoint(self, paths: PathTree) -> Pose | None:
        """The nearest pose from which something unknown comes into view."""
        return next((pose for pose in paths if self.gain(pose) > 0), None)

    def resting_places(self) -> list[Cell]:
        """Empty cells within reach where an object blocks no passage; where there are none, no door."""
        harmless = self.harmless_places()
        return [cell for cell in harmless if not self._narrow(cell)] or harmless

    def harmless_places(self) -> list[Cell]:
        """Empty cells within reach that are not beside a door, nearest first."""
        reach = dict.fromkeys(pose[:2] for pose in PathTree(self.level.pose, self.passable(doors=False)))
        return [cell for cell in reach if self.empty(cell) and not self._beside_door(cell)]

    def drop_pose(self, goal: Pose, barred: Container[Cell]) -> Pose | None:
        """Where to drop what is carried so that the way on to ``goal`` meets few obstacles and is short."""
        reach = PathTree(self.level.pose, self.passable(doors=False))
        best, least = None, 0
        for cell in self.harmless_places()[:_TRIED_PLACES]:
            for pose in facing_poses(cell):
                walk = reach.depth(pose)
                if walk is None:
                    continue
                onward = self.paths_past_obstacles(barred, start=pose, filled=cell).depth(goal)
                if onward is not None and (best is None or walk + onward < least):
                    best, least = pose, walk + onward
        return best

    def _beside_door(self, cell: Cell) -> bool:
        neighbours = [self.level.at(place) for place in _ring(cell)[1::2]]
        return any(thing is not None and thing.type == "door" for thing in neighbours)

    def _narrow(self, cell: Cell) -> bool:
        """Whether filling the cell could cut its neighbours off from each other."""
        blocked = [not self.empty(place) for place in _ring(cell)]
        return sum(blocked[i] != blocked[i - 1] for i in range(8)) > 2


def _ring(cell: Cell) -> list[Cell]:
    """The eight cells around one, in turn, from a corner."""
    around = ((-1, -1), (0, -1), (1, -1), (1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0))
    return [(cell[0] + dx, cell[1] + dy) for dx, dy in around]
