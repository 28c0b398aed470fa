"""Maze: walk to a goal while seeing only the walls next to you."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from agentgym_rl.envs.core import Achieved, Observation, Step, Style, Task, TextEnv
from agentgym_rl.envs.knobs import Knob
from agentgym_rl.envs.maze import tasks
from agentgym_rl.envs.maze.families import FAMILIES
from agentgym_rl.envs.maze.layout import MOVES, Cell, Layout
from agentgym_rl.envs.texts import EnvTexts, read_texts

TEXTS = read_texts(__file__, EnvTexts)
MAX_STEPS = 50
"""Actions that are carried out in an episode, AgentGym's limit; one more is answered with failure."""

_SIDES = {"to your right": "move right", "to your left": "move left", "above you": "move up", "below you": "move down"}
"""AgentGym's names of the neighbouring cells, in its order."""

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""A word is one token where a digit with its space is two; no layout has two cells further apart along an axis."""

SUCCESS: Mapping[Style, str] = {"agentgym": "Success", "compact": "done"}
FAILURE: Mapping[Style, str] = {"agentgym": "Failure", "compact": "out of steps"}


class Maze(TextEnv):
    """The maze of LMRL-Gym (Abdulhai et al. 2023, arXiv:2311.18232) with AgentGym's rules, and mazes of our own.

    The goal earns 1 and ends the episode. A move into a wall is a legal action that changes nothing (``blocked`` in
    ``info``); any other action is ``invalid`` and counts as a step, too. After :data:`MAX_STEPS` actions without
    success the next one truncates. ``info`` holds ``invalid``, ``blocked`` and ``raw_reward``, which is AgentGym's:
    1 for the goal, -1 at the step limit, else 0.

    Args:
        style: wording of instruction and observations.
        family: let all splits but ``agentgym`` have layouts of this family only.
        steps: let them have shortest paths of these lengths only: 1-4, 5-8 or 9-12.
        size: let them have layouts of at most so many cells inside along an axis, 7 to 10, which are other mazes.

    Raises:
        ValueError: there is no such family, range of lengths or size.
    """

    name = "maze"
    knobs = (
        Knob("family", tuple(FAMILIES), ordered=False),
        Knob("steps", tasks.LENGTHS),
        Knob("size", tuple(tasks.SIZES), nested=True),
    )

    def __init__(
        self,
        style: Style = "agentgym",
        family: str | None = None,
        steps: str | None = None,
        size: int | None = None,
    ) -> None:
        super().__init__(style)
        if size is not None and size not in tasks.SIZES:
            raise ValueError(f"size={size} is not between {tasks.SIZES[0]} and {tasks.SIZES[-1]} cells")
        self._lay_out = partial(tasks.puzzle, size=tasks.SIZES[-1] if size is None else size)
        self._spec = TEXTS.spec(self.name, tasks.of_kind(family, steps), raw_reward_range=(-1.0, 1.0))
        self._puzzle: tasks.Puzzle
        self._cell: Cell
        self._steps = 0
        self._rules = ""

    def quote(self, instruction: str, opening: str) -> None:
        """AgentGym's client puts rules and an example before the first observation, which is a line."""
        super().quote(instruction, opening)
        rules, line_end, _ = opening.rpartition("\n")
        self._rules = rules + line_end

    def _opened(self, first: Observation) -> Observation:
        return replace(first, text=self._rules + first.text)

    async def _reset(self, task: Task) -> Observation:
        self._puzzle = self._find(task)
        self._cell = self._puzzle.start
        self._steps = 0
        return self._observation()

    async def _step(self, action: str) -> Step:
        if self._steps == MAX_STEPS:
            info = {"invalid": False, "blocked": False, "raw_reward": -1.0}
            return Step(Observation(FAILURE[self.style], ()), 0.0, terminated=False, truncated=True, info=info)
        self._steps += 1
        move = _normalised(action)
        valid = move in MOVES
        cell = self._puzzle.layout.after(self._cell, move) if valid else self._cell
        blocked = valid and cell == self._cell
        self._cell = cell
        solved = cell == self._puzzle.goal
        if solved:
            observation = Observation(SUCCESS[self.style], ())
        else:
            observation = self._observation("invalid" if not valid else "wall" if blocked else "")
        info = {"invalid": not valid, "blocked": blocked, "raw_reward": float(solved)}
        return Step(observation, float(solved), terminated=solved, info=info)

    def goal(self, task: Task) -> str:
        """Start, goal and layout; draws the layout (under a millisecond, as a rule)."""
        return str(self._find(task))

    async def content(self, task: Task) -> str:
        return self.goal(task)

    def difficulty(self, task: Task) -> str:
        """The range of lengths of the shortest path, such as ``steps 5-8``."""
        return tasks.difficulty(self._index(task))

    def oracle(self, task: Task) -> list[str]:
        return self._find(task).path()

    def achieved(self, task: Task, commands: Sequence[str]) -> Achieved | None:
        """The cell furthest from the start that is reached, no further than goals of tasks are."""
        puzzle = self._lay_out(self._index(task))
        first = {puzzle.start: 0}
        cell = puzzle.start
        for turn, command in enumerate(commands[:MAX_STEPS], start=1):
            if (move := _normalised(command)) in MOVES:
                cell = puzzle.layout.after(cell, move)
                first.setdefault(cell, turn)
        steps = puzzle.layout.distances(puzzle.start)
        cells = [cell for cell in first if cell != puzzle.goal and 0 < steps[cell] <= tasks.FURTHEST]
        if not cells:
            return None
        goal = max(cells, key=lambda cell: steps[cell])
        return Achieved(str(replace(puzzle, goal=goal)), first[goal])

    def steps_left(self, task: Task, commands: Sequence[str]) -> list[float]:
        """The length of the shortest path from each cell on the way; the step limit does not count."""
        puzzle = self._find(task)
        cells = [puzzle.start]
        for command in commands:
            move = _normalised(command)
            cells.append(puzzle.layout.after(cells[-1], move) if move in MOVES else cells[-1])
        distances = puzzle.layout.distances(puzzle.goal)
        return [float(distances[cell]) for cell in cells]

    def _find(self, task: Task) -> tasks.Puzzle:
        original = self._lay_out(self._index(task))
        if not self._pursued:
            return original
        puzzles = (replace(original, goal=cell) for cell in original.layout.cells() if cell != original.start)
        if (pursued := next((puzzle for puzzle in puzzles if str(puzzle) == self._pursued), None)) is None:
            raise self._no_such_goal(task)
        return pursued

    def _observation(self, note: str = "") -> Observation:
        text = observe(self._puzzle.layout, self._cell, self._puzzle.goal, self.style, note)
        return Observation(text, tuple(MOVES))


def _normalised(command: str) -> str:
    return " ".join(command.lower().split())


def observe(layout: Layout, cell: Cell, goal: Cell, style: Style, note: str = "") -> str:
    """What is seen from a cell; ``note`` says in the ``compact`` style why the agent is where it was."""
    if style == "compact":
        return f"{note}, {_compact(layout, cell, goal)}" if note else _compact(layout, cell, goal)
    possible = layout.open_moves(cell)
    walls = [side for side, move in _SIDES.items() if move not in possible]
    return (
        f"The goal is at position {goal[0]}, {goal[1]}. "
        f"Your current position is at position {cell[0]}, {cell[1]}. {_list_walls(walls)}"
    )


def _list_walls(walls: list[str]) -> str:
    if not walls:
        return "There are no walls near you."
    return f"There is a wall {walls[0]}." if len(walls) == 1 else f"There are walls {', '.join(walls)}."


def _compact(layout: Layout, cell: Cell, goal: Cell) -> str:
    down, right = goal[0] - cell[0], goal[1] - cell[1]
    words = ["goal"]
    if down:
        words.append(f"{_NUMBERS[abs(down)]} {'down' if down > 0 else 'up'}")
    if right:
        words.append(f"{_NUMBERS[abs(right)]} {'right' if right > 0 else 'left'}")
    ways = [move.removeprefix("move ") for move in MOVES if move in layout.open_moves(cell)]
    return " ".join([*words, "open", *ways])
