"""Cells, poses and the way a pose moves."""

from minigrid.core.actions import Actions

Cell = tuple[int, int]
"""Column and row of the grid, counted from the top left corner."""

Pose = tuple[int, int, int]
"""Column, row and direction of the agent; directions 0 to 3 are right, down, left and up, as in minigrid."""

Plan = tuple[Actions, ...]
"""Primitive minigrid actions in the order they are carried out."""

DIRECTIONS: tuple[Cell, ...] = ((1, 0), (0, 1), (-1, 0), (0, -1))


def offset(pose: Pose, front: int, right: int) -> Cell:
    """The cell so many steps in front and to the right of the agent."""
    x, y, direction = pose
    dx, dy = DIRECTIONS[direction]
    return x + front * dx - right * dy, y + front * dy + right * dx


def ahead(pose: Pose) -> Cell:
    """The cell the agent faces."""
    return offset(pose, 1, 0)


def facing_poses(cell: Cell) -> list[Pose]:
    """The four poses from which the cell is right in front."""
    return [(cell[0] - dx, cell[1] - dy, direction) for direction, (dx, dy) in enumerate(DIRECTIONS)]


def turned(pose: Pose, quarter_turns: int) -> Pose:
    """The pose after so many quarter turns to the right."""
    return pose[0], pose[1], (pose[2] + quarter_turns) % 4


def moves(pose: Pose) -> tuple[tuple[Actions, Pose], ...]:
    """Forward, left and right, each with the pose after it where nothing is in the way."""
    x, y, direction = pose
    dx, dy = DIRECTIONS[direction]
    return (
        (Actions.forward, (x + dx, y + dy, direction)),
        (Actions.left, (x, y, (direction - 1) % 4)),
        (Actions.right, (x, y, (direction + 1) % 4)),
    )


def end_of(pose: Pose, plan: Plan) -> Pose:
    """The pose after an unhindered plan; only turns and forward change it."""
    for action in plan:
        pose = dict(moves(pose)).get(action, pose)
    return pose


def distance(a: Cell, b: Cell) -> int:
    """Steps between two cells on an empty grid."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])
