"""The library's own solutions, cut to what is needed."""

from __future__ import annotations

from functools import lru_cache

from agentgym_rl.envs.core import OracleUnavailable
from agentgym_rl.envs.sciworld.games import game
from agentgym_rl.envs.sciworld.pool import POOL


@lru_cache(maxsize=4096)
def solve(index: int, simplifications: str, step_limit: int) -> tuple[str, ...]:
    """Actions that solve a task: those of the library's gold path up to the end of the game that do something.

    Raises:
        TaskNotFound: there is no such task.
        OracleUnavailable: the path does not lead to a score of 100 within the moves allowed.
    """
    played = game(index)
    simulation = POOL.lease()
    try:
        simulation.load(played.family.name, played.variation, simplifications, gold=True)
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
        raise OracleUnavailable(f"sciworld_{index} ({played}): the gold path does not solve it in {step_limit} moves")
    return tuple(actions)
