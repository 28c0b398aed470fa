"""The reward of an episode whose harness has ended without telling one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym_rl.envs.core import EnvFault, EnvTimeout, in_thread
from agentgym_rl.rollout.harness import process
from agentgym_rl.rollout.harness.settings import Harness, found, program


async def grade(harness: Harness, facts: Mapping[str, Any], folder: Path, env: Mapping[str, str]) -> float | None:
    """What the grader of a harness gives; None where it has none.

    Args:
        facts: the task.
        folder: where the harness ran.
        env: of the grader's process.

    Raises:
        EnvFault: the grader failed, or gives no number from 0 to 1.
        EnvTimeout: it took too long.
    """
    if harness.grade_command:
        exit = await process.run(program(harness.grade_command), folder, env, harness.grade_seconds)
        if exit.late:
            raise EnvTimeout(f"the grader took longer than {harness.grade_seconds:g} s")
        if exit.status < 0 or exit.status in (126, 127):
            raise EnvFault(f"the grader ended with status {exit.status}: {exit.output}")
        return float(exit.status == 0)
    if harness.grade_file:
        return _from_file(folder / harness.grade_file)
    if not harness.grade_function:
        return None
    clock = asyncio.timeout(harness.grade_seconds)
    try:
        async with clock:
            reward = await in_thread(found(harness.grade_function), dict(facts), folder)
    except Exception as error:  # a grader is another's code
        if isinstance(error, TimeoutError) and clock.expired():
            raise EnvTimeout(f"the grader took longer than {harness.grade_seconds:g} s") from error
        raise EnvFault(f"the grader failed: {type(error).__name__}: {error}") from error
    return _checked(reward, harness.grade_function)


def _from_file(path: Path) -> float:
    """The reward in a file; 0 where the harness left none, or none that can be read: that is its doing."""
    if not path.is_file():  # a pipe or a device has no end
        return 0.0
    try:
        with path.open("rb") as file:
            return _checked(float(file.read(100).decode()), path.name)
    except (OSError, ValueError, EnvFault):
        return 0.0


def _checked(reward: Any, by: str) -> float:
    number = isinstance(reward, int | float)
    if not number or not math.isfinite(reward) or not 0 <= reward <= 1:
        raise EnvFault(f"{by} gives {reward!r:.80}; a reward is a number from 0 to 1")
    return float(reward)
