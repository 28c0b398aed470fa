"""Episodes in lockstep rounds, the schedule of AgentGym-RL's ``vLLMRollout.generate_sequences``.

All live episodes generate, wait for the last of them, step in a thread pool as wide as their number, wait for the last.
Only the schedule is AgentGym-RL's: tokens, requests and environments are those of the other side, and resets run side
by side where AgentGym-RL makes them one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from paced import PacedEnv, understand

from agentgym_rl.rollout.tokens import TokenConversation

PAUSE_S = 1.0
"""AgentGym-RL's ``send_interval``, slept before each step of the environments."""


async def lockstep(envs: Sequence[PacedEnv], conversations: Sequence[TokenConversation], pause_s: float) -> None:
    """Play one batch of episodes to their ends.

    Args:
        pause_s: seconds slept before each step of the environments.
    """
    loop = asyncio.get_running_loop()
    live = list(zip(envs, conversations, strict=True))
    with ThreadPoolExecutor(len(live)) as pool:
        await asyncio.gather(*(loop.run_in_executor(pool, env.reset_blocking) for env, _ in live))
        await asyncio.gather(*(conversation.start(list(env.script.opening), understand) for env, conversation in live))
        while live:
            replies = await asyncio.gather(*(conversation.respond() for _, conversation in live))
            if any(reply is None or reply.aborted for reply in replies):
                raise RuntimeError("the model gave no reply; raise rollout.py's response_limit")
            if pause_s:
                await asyncio.sleep(pause_s)
            calls = [
                loop.run_in_executor(pool, env.step_blocking, reply.text)
                for (env, _), reply in zip(live, replies, strict=True)
                if reply is not None
            ]
            steps = await asyncio.gather(*calls)
            going = [(episode, step) for episode, step in zip(live, steps, strict=True) if not step.done]
            fits = await asyncio.gather(
                *(conversation.observe(step.observation.text) for (_, conversation), step in going)
            )
            if not all(fits):
                raise RuntimeError("an episode does not fit into the context; raise rollout.py's response_limit")
            live = [episode for episode, _ in going]
