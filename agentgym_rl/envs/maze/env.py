"""Maze: walk to a goal while seeing only the walls next to you."""

from __future__ import annotations

from agentgym_rl.envs.core import EnvSpec, Observation, ProtocolError, Step, Style, Task, TaskNotFound, TextEnv
from agentgym_rl.envs.maze import tasks, wording
from agentgym_rl.envs.maze.layout import MOVES, Cell
from agentgym_rl.envs.tools import Tool

MOVE = Tool(
    "move",
    "Walk one cell.",
    {"direction": {"type": "string", "enum": ["up", "down", "left", "right"], "description": "where to"}},
    commands=("move {direction}",),
)
MAX_STEPS = 50
"""Actions the world carries out in an episode, AgentGym's limit; one more is answered with failure."""


class Maze(TextEnv):
    """The maze of LMRL-Gym (Abdulhai et al. 2023, arXiv:2311.18232) as AgentGym plays it, and mazes of our own.

    The goal earns 1 and ends the episode. A move into a wall is a legal action that changes nothing (``blocked`` in
    ``info``); what is no move is ``invalid`` and counts as a step, too. After :data:`MAX_STEPS` actions without
    success the next one truncates. ``info`` holds ``invalid``, ``blocked`` and ``raw_reward``, which is AgentGym's:
    1 for the goal, -1 at the step limit, else 0.

    Args:
        style: wording of instruction and observations.
        family: let all splits but ``agentgym`` have layouts of this family only.

    Raises:
        ValueError: there is no such family.
    """

    name = "maze"

    def __init__(self, style: Style = "agentgym", family: str | None = None) -> None:
        super().__init__(style)
        self._spec = EnvSpec(
            name=self.name,
            instructions=wording.INSTRUCTIONS,
            splits=tasks.SPLITS if family is None else tasks.of_family(family),
            max_turns=15,
            success_above=0.99,
            tools=(MOVE,),
            raw_reward_range=(-1.0, 1.0),
            licence="Apache-2.0; rules and first maze are facts of LMRL-Gym and AgentGym (both MIT)",
        )
        self._puzzle: tasks.Puzzle | None = None
        self._cell: Cell = (0, 0)
        self._steps = 0

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    async def _reset(self, task: Task) -> Observation:
        self._puzzle = self._find(task)
        self._cell = self._puzzle.start
        self._steps = 0
        return self._observation(self._puzzle)

    async def _step(self, action: str) -> Step:
        puzzle = self._puzzle
        if puzzle is None:
            raise ProtocolError("maze was stepped before a reset or after the end of the episode")
        if self._steps == MAX_STEPS:
            self._puzzle = None
            info = {"invalid": False, "blocked": False, "raw_reward": -1.0}
            return Step(Observation(wording.FAILURE[self.style], ()), 0.0, terminated=False, truncated=True, info=info)
        self._steps += 1
        move = " ".join(action.lower().split())
        valid = move in MOVES
        cell = puzzle.layout.after(self._cell, move) if valid else self._cell
        blocked = valid and cell == self._cell
        self._cell = cell
        solved = cell == puzzle.goal
        if solved:
            self._puzzle = None
            observation = Observation(wording.SUCCESS[self.style], ())
        else:
            observation = self._observation(puzzle, "invalid" if not valid else "wall" if blocked else "")
        info = {"invalid": not valid, "blocked": blocked, "raw_reward": float(solved)}
        return Step(observation, float(solved), terminated=solved, info=info)

    async def _close(self) -> None:
        self._puzzle = None

    def goal(self, task: Task) -> str:
        """Start, goal and layout; draws the layout (under a millisecond, as a rule)."""
        return str(self._find(task))

    def difficulty(self, task: Task) -> str:
        """The range of lengths of the shortest path, such as ``steps 5-8``."""
        return tasks.difficulty(self._index(task))

    def oracle(self, task: Task) -> list[str]:
        return self._find(task).path()

    def _find(self, task: Task) -> tasks.Puzzle:
        return tasks.puzzle(self._index(task))

    def _index(self, task: Task) -> int:
        if task.env != self.name:
            raise TaskNotFound(f"{task} is not a task of {self.name}")
        return task.index

    def _observation(self, puzzle: tasks.Puzzle, note: str = "") -> Observation:
        return Observation(wording.observe(puzzle.layout, self._cell, puzzle.goal, self.style, note), tuple(MOVES))
