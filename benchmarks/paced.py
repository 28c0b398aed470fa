"""Environments whose answers are recorded and whose waiting times are drawn, for ``benchmarks/rollout.py``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from random import Random
from statistics import fmean
from typing import ClassVar

from load import Busy

from agentgym_rl.envs import env_class
from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.core import EnvSpec, Message, Observation, Step, Task, TextEnv
from agentgym_rl.rollout.conversation import Scripted
from agentgym_rl.rollout.loop import run_attempt
from agentgym_rl.rollout.policies.scripted import OracleScript
from agentgym_rl.rollout.settings import RolloutSettings

ENVS = ("textcraft", "babyai", "maze")
SIGMA = log(20) / 2.3263478740408408
"""Of the lognormal whose 99th percentile is 20 times its median."""


@dataclass(frozen=True, slots=True)
class Script:
    """An episode of a real environment, played by its oracle."""

    task: Task
    spec: EnvSpec
    opening: tuple[Message, ...]
    """What the model reads before its first reply."""
    observations: tuple[str, ...]
    """One a turn."""
    reply_tokens: int
    """Mean length of a reply, with its end."""

    @property
    def turns(self) -> int:
        return len(self.observations)


async def record(each: int, length: Callable[[str], int]) -> list[Script]:
    """Oracle play of the first training tasks of each environment; the environments take turns.

    Args:
        length: tokens of a text.
    """
    scripts: list[list[Script]] = []
    for name in ENVS:
        env = env_class(name)("compact")
        of_env: list[Script] = []
        for index in env.spec.splits["train"]:
            task = Task(name, index)
            player = Scripted(OracleScript(env.oracle(task), env))
            episode = await run_attempt(env, task, player, RolloutSettings(style="compact"))
            of_env.append(
                Script(
                    task,
                    env.spec,
                    tuple(episode.messages[: episode.start]),
                    tuple(turn.observation for turn in episode.turns),
                    1 + round(fmean(length(turn.response) for turn in episode.turns)),
                )
            )
            if len(of_env) == each:
                break
        scripts.append(of_env)
        await env.close()
    return [script for group in zip(*scripts, strict=True) for script in group]


def latencies(kind: str, median_ms: float, count: int, rng: Random) -> list[float]:
    """Seconds that an environment takes for each of its calls: always ``kind`` milliseconds, or with a heavy
    ``tail``."""
    if kind != "tail":
        return [float(kind) / 1000] * count
    return [median_ms / 1000 * exp(SIGMA * rng.gauss(0, 1)) for _ in range(count)]


class PacedEnv(TextEnv):
    """Answers any action with what was recorded, after the time that was drawn for it; solved after the last one."""

    name: ClassVar[str] = "paced"

    def __init__(self, script: Script, waits: Sequence[float], busy: Busy) -> None:
        """
        Args:
            waits: seconds of the reset and of each step.
            busy: told when the environment is at work.
        """
        super().__init__("compact")
        self.script, self.waits, self.busy = script, waits, busy
        self.turn = 0

    @property
    def spec(self) -> EnvSpec:
        return self.script.spec

    async def _reset(self, task: Task) -> Observation:
        await self._wait(self.waits[0])
        return Observation(self.script.opening[-1]["content"])

    async def _step(self, action: str) -> Step:
        self.turn += 1
        await self._wait(self.waits[self.turn])
        return self._answer()

    def reset_blocking(self) -> Observation:
        """As :meth:`_reset`, for a thread."""
        self._wait_blocking(self.waits[0])
        return Observation(self.script.opening[-1]["content"])

    def step_blocking(self, action: str) -> Step:
        """As :meth:`_step`, for a thread."""
        self.turn += 1
        self._wait_blocking(self.waits[self.turn])
        return self._answer()

    def goal(self, task: Task) -> str:
        return str(task)

    def difficulty(self, task: Task) -> str:
        return f"{self.script.turns} turns"

    def _answer(self) -> Step:
        last = self.turn == self.script.turns
        return Step(Observation(self.script.observations[self.turn - 1]), float(last), terminated=last)

    async def _wait(self, seconds: float) -> None:
        if seconds:
            with self.busy:
                await asyncio.sleep(seconds)

    def _wait_blocking(self, seconds: float) -> None:
        if seconds:
            with self.busy:
                time.sleep(seconds)


def understand(reply: str) -> Action:
    """Reads any reply as an action: how long an episode is does not depend on what the model says."""
    return Action("", reply)
