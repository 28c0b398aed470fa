"""Sessions of the environments of tools."""

import asyncio
import json

from agentgym_rl.envs import Step, Task
from agentgym_rl.envs.core import TextEnv


def call(name: str, /, **arguments: object) -> str:
    """The command of a call."""
    return f"{name} with Action Input: {json.dumps(arguments)}"


def run_episode(env: TextEnv, index: int, *actions: str) -> tuple[str, list[Step]]:
    """The first observation, and actions until the episode ends."""

    async def episode() -> tuple[str, list[Step]]:
        first = await env.reset(Task(env.spec.name, index))
        steps: list[Step] = []
        for action in actions:
            steps.append(await env.step(action))
            if steps[-1].done:
                break
        return first.text, steps

    return asyncio.run(episode())
