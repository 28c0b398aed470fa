"""One minigrid level: what is in it, what the agent has seen of it, and how it moves."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import count
from typing import Any

import gymnasium
import minigrid  # noqa: F401 - registers the levels with gymnasium
from gymnasium.envs.registration import load_env_creator
from minigrid.core.actions import Actions
from minigrid.core.world_object import Wall, WorldObj
from minigrid.envs.babyai.core import roomgrid_level
from minigrid.envs.babyai.core.verifier import AfterInstr, BeforeInstr, OpenInstr

from agentgym_rl.envs.babyai.geometry import Cell, Plan, Pose, ahead, offset
from agentgym_rl.envs.babyai.levels import LEVEL_IDS, earlier, level_and_seed

_log = logging.getLogger(__name__)

DEPTH, SIDE = 7, 3
"""The view: so many rows from the agent's own on, and so many cells to either side."""
_OUTSIDE = Wall()


def _to_log(*words: object) -> None:
    _log.debug(" ".join(map(str, words)))


# minigrid prints to standard output whenever it rejects a candidate level; standard output belongs to the caller.
roomgrid_level.print = _to_log


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a plan went."""

    reward: float = 0.0
    """minigrid's: 1 - 0.9 * steps / max_steps on success, else 0."""
    terminated: bool = False
    """The mission is fulfilled, or failed for good."""
    truncated: bool = False
    """minigrid's own limit of primitive steps is reached."""

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated


@cache
def _maker(level_id: str) -> Callable[[], Any]:
    """Constructs a level as ``gymnasium.make`` does, which leaves a string in memory each time and so pins its page."""
    spec = gymnasium.spec(level_id)
    assert isinstance(spec.entry_point, str), f"{level_id} is not one of minigrid's levels"
    return partial(load_env_creator(spec.entry_point), **spec.kwargs)


FURTHER = 1_000_000
"""From a seed whose layout may not be repeated to the next one that is tried. Fewer seeds than this are in splits."""


class Level:
    """The level of one task. All randomness comes from minigrid's generator, seeded with the task's seed."""

    ids = LEVEL_IDS

    def __init__(self, index: int) -> None:
        level, seed = level_and_seed(index)
        kind: Callable[[int], Level] = type(self)
        earlier_layouts = _layouts(kind, tuple(earlier(index)))
        for self.seed in count(seed, FURTHER):
            self.minigrid: Any = _maker(self.ids[level])()
            """minigrid's environment."""
            self.minigrid.gen_obs = dict  # its observation is slow to compute, and ``view`` takes its place
            self._generate(self.seed)
            if (layout := self._laid_out()) not in earlier_layouts:
                break
        self.layout = layout
        """Mission, grid and place of the agent at the start, as text."""
        self._order = StrictOrder(self.instruction)
        self.watchers: list[Callable[[Actions], None]] = []
        """Called with each primitive after it was carried out."""
        self.seen: set[Cell] = set()
        """Every cell that was in view so far."""
        self._observe()

    def _generate(self, seed: int) -> None:
        self.minigrid.reset(seed=seed)

    def _laid_out(self) -> str:
        grid = self.minigrid.grid
        return f"{self.mission}\n{self.pose}\n{grid.width} {grid.encode().tobytes().hex()}"

    def _observe(self) -> None:
        self.view = self._view_from(self.pose)
        """The cells in view, by steps in front of the agent and to its right."""
        self.visible = self._inside(self.view.values())
        self.seen.update(self.visible)

    @property
    def mission(self) -> str:
        return str(self.minigrid.mission)

    @property
    def instruction(self) -> Any:
        """The mission as minigrid's verifier holds it."""
        return self.minigrid.instrs

    @property
    def steps(self) -> int:
        """Primitive steps taken."""
        return int(self.minigrid.step_count)

    @property
    def pose(self) -> Pose:
        x, y = self.minigrid.agent_pos
        return int(x), int(y), int(self.minigrid.agent_dir)

    @property
    def carrying(self) -> WorldObj | None:
        return self.minigrid.carrying

    @property
    def front(self) -> WorldObj | None:
        """What the agent faces; None if the cell is empty."""
        return self.at(ahead(self.pose))

    def at(self, cell: Cell) -> WorldObj | None:
        """What lies on a cell; None if it is empty. Outside the grid there are walls."""
        x, y = cell
        grid = self.minigrid.grid
        return grid.get(x, y) if 0 <= x < grid.width and 0 <= y < grid.height else _OUTSIDE

    def free(self, cell: Cell) -> bool:
        """Whether the agent knows the cell and may step on it."""
        if cell not in self.seen:
            return False
        thing = self.at(cell)
        return thing is None or bool(thing.can_overlap())

    def all_cells(self) -> set[Cell]:
        """Every cell of the grid."""
        return {(x, y) for x in range(self.minigrid.width) for y in range(self.minigrid.height)}

    def view_from(self, pose: Pose) -> set[Cell]:
        """The cells in view from a pose."""
        return self._inside(self._view_from(pose).values())

    def _inside(self, cells: Iterable[Cell]) -> set[Cell]:
        width, height = self.minigrid.width, self.minigrid.height
        return {(x, y) for x, y in cells if 0 <= x < width and 0 <= y < height}

    def _view_from(self, pose: Pose) -> dict[tuple[int, int], Cell]:
        """As minigrid has it: light spreads along a row to both sides, and from row to row straight and askew."""
        view = {}
        lit = {0}
        for front in range(DEPTH):
            row = {right: offset(pose, front, right) for right in range(-SIDE, SIDE + 1)}
            clear = {right for right, cell in row.items() if self._transparent(cell)}
            ahead: set[int] = set()
            for side in (1, -1):
                for right in range(-SIDE * side, SIDE * side, side):
                    if right in lit and right in clear:
                        lit.add(right + side)
                        ahead |= {right, right + side}
            view.update({(front, right): row[right] for right in lit})
            lit = ahead
        return view

    def _transparent(self, cell: Cell) -> bool:
        thing = self.at(cell)
        return thing is None or bool(thing.see_behind())

    def pursue(self, instruction: Any) -> None:
        """Take another mission in place of the level's own, before anything was done."""
        instruction.reset_verifier(self.minigrid)
        self.minigrid.instrs, self.minigrid.mission = instruction, instruction.surface(self.minigrid)
        self._order, self.layout = StrictOrder(instruction), self._laid_out()

    def execute(self, plan: Plan) -> Outcome:
        """Carry out primitives until the plan or the level ends."""
        reward, terminated, truncated = 0.0, False, False
        for action in plan:
            self._order.update()
            _, raw, terminated, truncated, _ = self.minigrid.step(Actions(action))
            reward = float(raw)
            for watch in self.watchers:
                watch(Actions(action))
            self._observe()
            if terminated or truncated:
                break
        return Outcome(reward, bool(terminated), bool(truncated and not terminated))


def in_order(mission: Any) -> tuple[Any, Any, bool]:
    """The two clauses of a mission, the one to fulfil first before the other, and whether the first is fulfilled."""
    if isinstance(mission, AfterInstr):
        return mission.instr_b, mission.instr_a, mission.b_done == "success"
    return mission.instr_a, mission.instr_b, mission.a_done == "success"


@lru_cache(maxsize=64)
def _layouts(kind: Callable[[int], Level], indices: tuple[int, ...]) -> frozenset[str]:
    """The layouts of some tasks."""
    return frozenset(kind(index).layout for index in indices)


class StrictOrder:
    """Keeps the action that fulfils the first clause of a sequence from failing the second.

    minigrid's verifier judges the second clause by the very action that fulfilled the first. A strict "open" then
    fails, since the door that was just opened is the wrong one: no behaviour could solve "open the grey door, then
    open the blue door" of OpenDoorsOrderN4Debug. Here the second clause becomes strict one action later.
    """

    def __init__(self, mission: Any) -> None:
        self._mission = mission
        second = in_order(mission)[1] if isinstance(mission, (BeforeInstr, AfterInstr)) else None
        self._second = second if isinstance(second, OpenInstr) and second.strict else None

    def update(self) -> None:
        """To be called before every primitive action."""
        if self._second is not None:
            self._second.strict = in_order(self._mission)[2]
