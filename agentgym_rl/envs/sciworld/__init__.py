"""ScienceWorld: experiments in a simulated house, each game scored by what was achieved of it."""

import threading
from functools import lru_cache

from agentgym_rl.envs.actions import parse_rest
from agentgym_rl.envs.core import (
    BlockingEnv,
    EnvUnavailable,
    Observation,
    OracleUnavailable,
    ProtocolError,
    Step,
    Style,
    Task,
    TaskNotFound,
)
from agentgym_rl.envs.sciworld import games
from agentgym_rl.envs.sciworld.engine import Simulation
from agentgym_rl.envs.sciworld.pool import POOL
from agentgym_rl.envs.sciworld.wording import TEXTS, instructions, observe

SIMPLIFICATIONS = (
    "easy",
    "teleportAction",
    "selfWateringFlowerPots",
    "openContainers",
    "openDoors",
    "noElectricalAction",
)
"""The library's; ``easy`` stands for several and is given alone."""

STEP_LIMIT = 100
"""Moves of a game's clock after which AgentGym ends it."""

LONGEST_ACTION = 1_000
"""Characters of an action that the simulator is given; it knows none as long."""


class SciWorld(BlockingEnv):
    """ScienceWorld (Wang et al. 2022, arXiv:2203.07540) with AgentGym's games, numbering and commands.

    The reward of a step is the amount by which the score, over 100, exceeds the best score before it, so an episode
    earns its best score. What a game scores at its start comes with the first step, as in AgentGym. A score of 100 ends
    the game, and so does a mistake that loses it, such as a focus on the wrong object: the score is then negative and
    earns nothing. The game's own limit of moves truncates. ``info`` holds ``invalid``, ``moves`` and ``raw_reward``,
    which is AgentGym's: the score as it is, -100 to 100.

    A session leases a game of the process's :data:`.pool.POOL` from its first reset until it is closed. Java starts
    with the first reset or oracle, which raise JavaMissing where there is no ``java``; goals, labels and splits need
    none.

    Args:
        style: wording of instruction and observations.
        simplifications: names out of :data:`SIMPLIFICATIONS`, separated by commas; AgentGym uses none.
        step_limit: moves of the game's clock.

    Raises:
        ValueError: an option is out of range.
    """

    name = "sciworld"

    def __init__(self, style: Style = "agentgym", simplifications: str = "", step_limit: int = STEP_LIMIT) -> None:
        super().__init__(style)
        names = [name.strip() for name in simplifications.split(",") if name.strip()]
        if unknown := sorted(set(names) - set(SIMPLIFICATIONS)):
            raise ValueError(
                f"simplifications {', '.join(unknown)} are unknown; choose of {', '.join(SIMPLIFICATIONS)}"
            )
        if "easy" in names and len(names) > 1:
            raise ValueError(f"simplifications {simplifications}: easy stands for several; give it alone")
        if step_limit < 1:
            raise ValueError(f"step_limit is {step_limit}; give at least 1 move")
        self._simplifications = ",".join(names)
        self._step_limit = step_limit
        self._electrical = "noElectricalAction" not in names
        teleport = not {"easy", "teleportAction"}.isdisjoint(names)
        self._spec = TEXTS.spec(
            self.name,
            games.splits(self._electrical),
            instructions=instructions(teleport),
            tools=tuple(tool for tool in TEXTS.tools if teleport or tool.name != "teleport"),
            read=parse_rest,
            raw_reward_range=(-100.0, 100.0),
        )
        self._busy = threading.RLock()
        """Held by each call, so that a game is not given back while a call that was given up still moves in it."""
        self._simulation: Simulation | None = None
        self._best = 0
        """Highest score so far, in percent."""

    def _reset_blocking(self, task: Task) -> Observation:
        game = self._find(task)
        with self._busy:
            if self._simulation is None or self._simulation.engine.dead:
                self._close_blocking()
                self._simulation = POOL.lease()
            goal, seen = self._simulation.load(game.family.name, game.variation, self._simplifications)
            self._best = 0
        return Observation(observe(seen, self.style, goal))

    def _step_blocking(self, action: str) -> Step:
        with self._busy:
            if self._simulation is None:
                raise ProtocolError("sciworld was closed before the step")  # while the call waited
            try:
                turn = self._simulation.step(action[:LONGEST_ACTION])
            except EnvUnavailable:
                self._in_episode = False  # a step is never repeated
                raise
            truncated = turn.moves > self._step_limit and not turn.over
            earned = max(turn.score - self._best, 0) / 100
            self._best = max(turn.score, self._best)
        info = {"invalid": turn.invalid, "moves": turn.moves, "raw_reward": float(turn.score)}
        return Step(Observation(observe(turn.text, self.style)), earned, turn.over, truncated, info)

    def _close_blocking(self) -> None:
        with self._busy:
            if self._simulation is not None:
                POOL.give_back(self._simulation)
                self._simulation = None

    def goal(self, task: Task) -> str:
        """Name and variation, such as ``boil, variation 3``; the description in words would take Java."""
        return str(self._find(task))

    async def content(self, task: Task) -> str:
        return self.goal(task)

    def difficulty(self, task: Task) -> str:
        """The task's name in ScienceWorld, such as ``boil``."""
        return self._find(task).family.name

    def oracle(self, task: Task) -> list[str]:
        """The library's solution. It takes up to seconds and may be longer than the turn limit.

        Raises:
            OracleUnavailable: it takes more moves than ``step_limit``.
        """
        self._find(task)
        return list(solve(task.index, self._simplifications, self._step_limit))

    def _find(self, task: Task) -> games.Game:
        game = games.game(self._index(task))
        if game.family.electrical and not self._electrical:
            raise TaskNotFound(f"{task} ({game}) cannot be run with simplifications={self._simplifications}")
        return game


@lru_cache(maxsize=4096)
def solve(index: int, simplifications: str, step_limit: int) -> tuple[str, ...]:
    """Actions that solve a task: those of the library's gold path, up to the end of the game, that are valid.

    Raises:
        TaskNotFound: there is no such task.
        OracleUnavailable: the path does not lead to a score of 100 within the moves allowed.
    """
    game = games.game(index)
    simulation = POOL.lease()
    try:
        simulation.load(game.family.name, game.variation, simplifications, gold=True)
        actions: list[str] = []
        for action in simulation.gold():
            turn = simulation.step(action)
            if not turn.invalid:
                actions.append(action)
            if turn.over or turn.moves > step_limit:
                break
    finally:
        POOL.give_back(simulation)
    if not actions or turn.score < 100:
        raise OracleUnavailable(f"sciworld_{index} ({game}): the gold path does not solve it in {step_limit} moves")
    return tuple(actions)
