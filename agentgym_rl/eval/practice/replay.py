"""Doing again, in a fresh session, what a task is to be made of; what differs then is no task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym_rl.envs.core import Task
from agentgym_rl.envs.mcp import MCP
from agentgym_rl.envs.mcp.tasks import Outcome, task_of
from agentgym_rl.envs.tooluse.tool import FINISH
from agentgym_rl.eval.practice.backward import Idea, Made
from agentgym_rl.rollout.loop import timed
from agentgym_rl.rollout.settings import RolloutSettings

DONE = "done"
"""The answer to a task that asks for a change."""
LARGEST = 3_000
"""Most characters of a state that a check compares."""


class Differs(Exception):
    """An idea is no task; says why."""


async def replay(env: MCP, start: Task, idea: Idea, calls: Sequence[Made], settings: RolloutSettings) -> dict[str, Any]:
    """The line of a file of tasks, after the calls of an idea were made again and graded by its check.

    Args:
        start: its setup comes first.
        calls: all of the episode.

    Raises:
        Differs: the results or the grade are others.
        EnvError: the server failed.
    """

    chosen = idea.of(calls)
    shown = None if idea.state is None else calls[idea.state - 1]

    async def again(some: Sequence[Made]) -> None:
        await timed(env.reset(start), settings.step_seconds, f"reset of {start}")
        for call in some:
            step, _ = await timed(env.step(call.command), settings.step_seconds, f"replay of {call.text[:80]}")
            if step.observation.text != call.observation:
                raise Differs("other on replay")

    value = None
    if shown is not None:
        await again([*chosen, shown])
        value = await env.ask(shown.name, shown.arguments)
        if len(json.dumps(value)) > LARGEST:
            raise Differs("too much to compare")
    line = _line(idea, chosen, shown, value)
    task = task_of(line, Path())
    *plan, (_, ended) = task.plan
    await again(chosen)
    if await task.reward(Outcome(ended["answer"], plan, env.ask)) < 1:
        raise Differs("not solved on replay")
    if shown is not None:
        await again([])
        if await task.reward(Outcome(ended["answer"], (), env.ask)):
            raise Differs("solved by nothing")
    return line


def _line(idea: Idea, chosen: Sequence[Made], shown: Made | None, value: Any) -> dict[str, Any]:
    answer = DONE if shown is not None else idea.answer
    state = None if shown is None else {"tool": shown.name, "arguments": dict(shown.arguments)}
    return {
        "instruction": idea.instruction,
        "difficulty": f"{len(chosen)} call{'s' if len(chosen) > 1 else ''}",
        "check": {"answer": answer} if state is None else {"state": state, "equals": value},
        "plan": [*([call.name, dict(call.arguments)] for call in chosen), [FINISH.name, {"answer": answer}]],
    }
