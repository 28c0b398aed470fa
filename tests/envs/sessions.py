"""Episodes of environments in this process, played or put into a digest, and the splits of a task."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence

from agentgym_rl.envs import Step, Task
from agentgym_rl.envs.core import Observation, TextEnv


def play(env: TextEnv, index: int, *actions: str) -> tuple[Observation, list[Step]]:
    """The first observation, and actions until the episode ends."""

    async def episode() -> tuple[Observation, list[Step]]:
        first = await env.reset(Task(env.name, index))
        steps: list[Step] = []
        for action in actions:
            steps.append(await env.step(action))
            if steps[-1].done:
                break
        return first, steps

    return asyncio.run(episode())


def splits_of(env: TextEnv, index: int) -> list[str]:
    """The splits that contain a task."""
    return [name for name, indices in env.spec.splits.items() if index in indices]


def transcript(env: TextEnv, split: str, actions: Callable[[list[str]], Sequence[str]]) -> str:
    """Start of the SHA-256 over tasks of a split and what an agent reads in them, of 300 tasks or fewer.

    Args:
        actions: what the agent does, from the oracle's solution.
    """
    indices = env.spec.splits[split]

    async def seen(index: int) -> list[str]:
        task = Task(env.name, index)
        texts = [env.goal(task), env.difficulty(task), (await env.reset(task)).text]
        for action in actions(env.oracle(task)):
            step = await env.step(action)
            texts += [action, step.observation.text, str(step.reward), str(step.done), str(sorted(step.info.items()))]
        return texts

    async def digest(indices: Iterable[int]) -> str:
        digest = hashlib.sha256()
        for index in indices:
            digest.update(repr(await seen(index)).encode())
        await env.close()
        return digest.hexdigest()[:16]

    return asyncio.run(digest(indices[:: len(indices) // 300 + 1]))
