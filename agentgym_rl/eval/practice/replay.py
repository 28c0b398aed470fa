"""Doing again, in fresh sessions, what a task is to be made of; what differs then is no task."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from agentgym_rl.envs.core import Task
from agentgym_rl.envs.explorable import Explorable, Found
from agentgym_rl.eval.practice.backward import Idea, Made
from agentgym_rl.rollout.loop import close, timed
from agentgym_rl.rollout.settings import RolloutSettings

LARGEST = 3_000
"""Most characters of a state that a check compares."""


class Differs(Exception):
    """An idea is no task; says why."""


@dataclass(frozen=True)
class Replay:
    """Does again what was done in an episode."""

    world: Explorable
    open: Callable[[Mapping[str, Any]], Explorable]
    """Opens a session of the environment whose only task is the one of a line."""
    begins: Mapping[str, Any]
    """How the episode began: keys of a line."""
    calls: Sequence[Made]
    """All of the episode."""
    settings: RolloutSettings

    async def line(self, idea: Idea) -> dict[str, Any]:
        """The line of a file of tasks, after the calls of an idea were made again and earned a success.

        Raises:
            Differs: the results or the reward are others.
            EnvError: the environment failed.
        """
        chosen = idea.of(self.calls)
        found = Found(
            instruction=idea.instruction, calls=[call.call for call in chosen], answer=idea.answer
        )  # fmt: skip
        if idea.state is not None:
            shown = self.calls[idea.state - 1]
            async with self._after([*chosen, shown], Found(instruction=idea.instruction)) as env:
                found = replace(found, shown=shown.call, equals=await env.ask(*shown.call))
            if len(json.dumps(found.equals)) > LARGEST:
                raise Differs("too much to compare")
        async with self._after(chosen, found) as env:
            if not await self._ends_well(env):
                raise Differs("not solved on replay")
        if found.shown is not None:
            async with self._after([], found) as env:
                if await self._ends_well(env):
                    raise Differs("solved by nothing")
        return self._line(found)

    def _line(self, found: Found) -> dict[str, Any]:
        number = len(found.calls)
        label = {"instruction": found.instruction, "difficulty": f"{number} call{'s' if number > 1 else ''}"}
        return {**label, **self.world.line(found), **self.begins}

    @property
    def _task(self) -> Task:
        return Task(self.world.name, 0)

    @asynccontextmanager
    async def _after(self, calls: Sequence[Made], found: Found) -> AsyncIterator[Explorable]:
        """A session of a task in which calls were made and gave what they had given."""
        env, seconds = self.open(self._line(found)), self.settings.step_seconds
        try:
            await timed(env.reset(self._task), seconds, f"reset of {self._task}")
            for call in calls:
                step, _ = await timed(env.step(call.command), seconds, f"replay of {call.text[:80]}")
                if step.observation.text != call.observation:
                    raise Differs("other on replay")
            yield env
        finally:
            await close(env, seconds)

    async def _ends_well(self, env: Explorable) -> bool:
        """Whether the last command of the oracle is a success now."""
        step, _ = await timed(
            env.step(env.oracle(self._task)[-1]), self.settings.step_seconds, f"end of {self._task}"
        )  # fmt: skip
        return step.terminated and env.spec.success(step.reward)
