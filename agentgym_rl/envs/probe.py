"""Reproducible walks through an environment, and their digests.

``python -m agentgym_rl.envs.probe`` reads a JSON request ``{"env", "options", "item_ids"}`` from standard input and
prints ``{item id: digest}``; the checker runs it under other hash seeds to compare processes.
"""

import asyncio
import json
import os
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentgym_rl.envs.core import Observation, OracleUnavailable, Step, Task, TextEnv
from agentgym_rl.envs.registry import make
from agentgym_rl.envs.splits import fingerprint

GARBAGE = (
    *("", " ", "qwzx", "go", "42", "-1", ",", "a" * 2000, "Action: Action:", "{'json': [1, 2]}"),
    *("../../etc/passwd", "\x00\t\n", "héllo wörld ☃ 日本", "use use use use"),
)
"""Actions that no environment understands, or that could break one."""

WALK = 12
"""Steps of a random walk."""


@dataclass(slots=True)
class Walk:
    """A walk through an episode: the first observation, and the step after each action."""

    task: Task
    first: Observation
    actions: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def reward(self) -> float:
        """Reward of the episode."""
        return sum(step.reward for step in self.steps)

    @property
    def done(self) -> bool:
        return bool(self.steps) and self.steps[-1].done

    def digest(self) -> str:
        """First 12 hex digits of the sha256 of everything an agent could have seen."""
        seen: list[object] = [str(self.task), self.first.text, self.first.actions]
        for action, step in zip(self.actions, self.steps, strict=True):
            after = step.observation
            seen.append([action, after.text, after.actions, step.reward, step.terminated, step.truncated])
        return fingerprint(json.dumps(seen, default=repr), 12)


class BadAction(Exception):
    """The environment raised on an action; the exception is the cause."""


Chooser = Callable[[Walk], str | None]
"""Chooses the next action from the walk so far; ``None`` ends the walk."""


def follow(actions: Sequence[str]) -> Chooser:
    """The given actions in order."""
    return lambda walk: actions[len(walk.steps)] if len(walk.steps) < len(actions) else None


def wander(task: Task) -> Chooser:
    """Garbage and, where the environment lists them, possible actions; the same for a task in every process."""
    rng = random.Random(str(task))

    def choose(walk: Walk) -> str | None:
        if len(walk.steps) >= WALK:
            return None
        possible = (walk.steps[-1].observation if walk.steps else walk.first).actions
        return rng.choice(possible) if possible and rng.random() < 0.6 else rng.choice(GARBAGE)

    return choose


async def walk(env: TextEnv, task: Task, choose: Chooser) -> Walk:
    """Reset ``task`` and act until it is over or nothing more is chosen.

    Raises:
        BadAction: the environment raised on an action.
    """
    trail = Walk(task, await env.reset(task))
    while not trail.done and (action := choose(trail)) is not None:
        await act(env, trail, action)
    return trail


async def act(env: TextEnv, trail: Walk, action: str) -> None:
    """Take one action and add it to the walk. Raises BadAction: the environment raised."""
    try:
        step = await env.step(action)
    except Exception as error:  # any exception here is a fault of the environment
        raise BadAction(f"action {action[:40]!r} raised {type(error).__name__}: {error}") from error
    trail.actions.append(action)
    trail.steps.append(step)


def solution(env: TextEnv, task: Task) -> list[str] | None:
    """The oracle's actions, or None where the task has no oracle."""
    try:
        return env.oracle(task)
    except OracleUnavailable:
        return None


async def digest(env: TextEnv, task: Task) -> str:
    """Digest of the task's goal, difficulty, oracle walk and random walk."""
    parts = [env.goal(task), env.difficulty(task)]
    for choose in (follow(solution(env, task) or []), wander(task)):
        try:
            parts.append((await walk(env, task, choose)).digest())
        except BadAction as error:
            parts.append(str(error))
    return fingerprint(json.dumps(parts), 12)


async def _main() -> None:
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what environments print must not get into the answer
    request = json.load(sys.stdin)
    env = make(request["env"], **request["options"])
    tasks = [Task.parse(item_id) for item_id in request["item_ids"]]
    try:
        digests = {str(task): await digest(env, task) for task in tasks}
    finally:
        await env.close()
    with answer:
        json.dump(digests, answer)


if __name__ == "__main__":
    asyncio.run(_main())
