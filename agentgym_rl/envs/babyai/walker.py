"""Ways to places in few commands, and looking around."""

from collections.abc import Iterable

from minigrid.core.actions import Actions

from agentgym_rl.envs.babyai.commands import OWN, Rules
from agentgym_rl.envs.babyai.geometry import Plan, Pose, end_of
from agentgym_rl.envs.babyai.known_map import KnownMap, Passable
from agentgym_rl.envs.babyai.paths import PathTree, distances

MAX_COMMANDS = 400
"""Commands after which a walker gives up."""

_WALKING = {Actions.left, Actions.right, Actions.forward}
_THROUGH_DOOR = (Actions.toggle, Actions.forward)


class Ended(Exception):
    """The level has ended."""

    def __init__(self, success: bool) -> None:
        super().__init__(success)
        self.success = success


class Stuck(Exception):
    """The walker knows nothing to do."""


class Exhausted(Stuck):
    """The walker has tried everything."""


class Walker:
    """An agent in the level of a task.

    ``commands`` are those it has carried out, ``options`` those that are possible now.
    """

    def __init__(self, index: int, rules: Rules = OWN, *, informed: bool = False) -> None:
        self._rules = rules
        self.level = level = rules.level(index)
        self.known = KnownMap(level, everything=informed)
        self.commands: list[str] = []
        self.options = rules.options(level)

    def do(self, command: str) -> None:
        """Carry out a command.

        Raises:
            Ended: the level has ended with it.
            Stuck: the command is not possible, or there were too many.
        """
        if command not in self.options:
            raise Stuck(f"{command!r} is not possible")
        if len(self.commands) >= MAX_COMMANDS:
            raise Stuck(f"{MAX_COMMANDS} commands were not enough")
        outcome = self.level.execute(self.options[command])
        self.commands.append(command)
        if outcome.over:
            raise Ended(outcome.reward > 0)
        self.options = self._rules.options(self.level)

    def act(self, action: Actions) -> None:
        """Carry out the command that is this primitive and no more."""
        self.do(next((name for name, plan in self.options.items() if plan == (action,)), action.name))

    def walk(self, goals: Iterable[Pose], free: Passable, then: Actions | None = None) -> bool:
        """One command towards the nearest goal pose, or ``then`` once there; False if no goal can be reached.

        Of the commands that shorten the way, the one that ends nearest is taken, even if its own way is longer.
        """
        goal_set = set(goals)
        if self.level.pose in goal_set:
            if then is not None:
                self.act(then)
            return then is not None
        steps_left = distances(goal_set, free)
        here = steps_left.get(self.level.pose)
        if here is None:
            return False
        shortcut = self._shortcut(goal_set, then)
        if shortcut is None:
            ends = {command: end for command, end in self.ends(free).items() if steps_left.get(end, here) < here}
            if not ends:
                return False
            shortcut = min(ends, key=lambda command: (steps_left[ends[command]], len(self.options[command])))
        self.do(shortcut)
        return True

    def _shortcut(self, goals: set[Pose], then: Actions | None) -> str | None:
        """A command that walks to a goal and acts there."""
        pose = self.level.pose
        tails: dict[Actions | None, Plan] = {Actions.pickup: (Actions.pickup,), Actions.toggle: _THROUGH_DOOR}
        tail = tails.get(then)
        if tail is None:
            return None
        shortcuts = {c: p for c, p in self.options.items() if p[-len(tail) :] == tail}
        fitting = [c for c, p in shortcuts.items() if end_of(pose, p[: -len(tail)]) in goals]
        return min(fitting, key=lambda command: len(shortcuts[command]), default=None)

    def ends(self, free: Passable) -> dict[str, Pose]:
        """Where each command that only walks or opens a door ends, if its last cell is passable."""
        pose = self.level.pose
        ends_by_pose = {}
        for command, plan in self.options.items():
            steps = plan[:-2] if plan[-2:] == _THROUGH_DOOR else plan
            if plan and _WALKING.issuperset(steps) and free((end := end_of(pose, plan))[:2]):
                ends_by_pose[command] = end
        return ends_by_pose

    def look_around(self, free: Passable) -> bool:
        """The command that shows most of the unseen, or one towards the nearest place that shows any."""
        gains = {command: self.known.gain(end) for command, end in self.ends(free).items()}
        best = max(gains, key=lambda command: gains[command])
        if gains[best] > 0:
            self.do(best)
            return True
        pose = self.known.viewpoint(PathTree(self.level.pose, free))
        return pose is not None and self.walk([pose], free)
