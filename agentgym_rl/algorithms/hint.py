"""What a teacher reads before the first observation, and the policy does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import partial

from agentgym_rl.algorithms.base import Run
from agentgym_rl.algorithms.other_prompt import fitting
from agentgym_rl.algorithms.restarts import task_of
from agentgym_rl.algorithms.rows import Row
from agentgym_rl.data.episode import prefaced
from agentgym_rl.envs import Task
from agentgym_rl.envs.core import OracleUnavailable
from agentgym_rl.rollout.playbook import Playbook

PLAN = "Commands that solve this task:"


class Hint(StrEnum):
    """Where it comes from: nowhere, the environment's oracle, or a file of lessons."""

    NONE = "none"
    PLAN = "plan"
    PLAYBOOK = "playbook"


def text(run: Run, hint: Hint, playbook: Playbook, task: Task) -> str:
    """What the teacher reads in a task; "" is nothing."""
    if hint is Hint.PLAYBOOK:
        return playbook.text(task.env)
    try:
        return "\n".join([PLAN, *run.environment(task.env).oracle(task)])
    except OracleUnavailable:
        return ""


def hinted(run: Run, row: Row, text: Callable[[Task], str]) -> Row | None:
    """A row of an episode in one segment as the teacher reads it; None without a hint that fits into the context."""
    assert row.episode is not None
    before = text(task_of(row.episode))
    return fitting(run, replace(row, streams={}), partial(prefaced, before)) if before else None
