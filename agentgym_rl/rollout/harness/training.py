"""Episodes of a harness within a run: the gateway is in the process of the agent loop. Needs the extra ``serve``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import Task, TextEnv
from agentgym_rl.envs.hosts.host import PerLoop
from agentgym_rl.rollout.gateway.chat import Chat
from agentgym_rl.rollout.gateway.tokens import TokenChat
from agentgym_rl.rollout.harness.run import assignment, run_harness
from agentgym_rl.rollout.harness.settings import Harness
from agentgym_rl.rollout.harness.shared import SharedGateway
from agentgym_rl.rollout.loop import opened, turn_limit
from agentgym_rl.rollout.settings import RolloutSettings

gateways = PerLoop(SharedGateway)
"""One for all episodes of an event loop."""
places: PerLoop[dict[int, asyncio.Semaphore]] = PerLoop(dict)
"""Of an event loop, by how many programs it may run at once."""


async def run_in_training(
    harness: Mapping[str, Any],
    make_env: Callable[[], TextEnv],
    task: Task,
    model: Mapping[str, Any],
    settings: RolloutSettings,
    max_turns: int | None,
    sample: int,
    preface: str,
) -> tuple[Episode, Chat]:
    """Run one episode; returns it with the chat, whose segments are learned from.

    Args:
        harness: settings of a :class:`~agentgym_rl.rollout.harness.settings.Harness`.
        make_env: gives the facts of the task; no episode of it is begun.
        model: arguments of a :class:`~agentgym_rl.rollout.gateway.tokens.TokenChat`.
        sample: number of the episode among those of its task.
        preface: text of an algorithm's that the harness is told.

    Raises:
        EnvError: the environment cannot be made.
        ValueError: a setting is wrong.
    """
    env = opened(make_env, task)
    work = assignment(env, task, turn_limit(env, settings, max_turns), sample, preface)
    chat, program = partial(TokenChat, **model, thinking=settings.thinking), Harness.of(harness)
    async with places.get().setdefault(program.concurrency, asyncio.Semaphore(program.concurrency)):
        return await run_harness(program, work, settings, gateways.get(), chat)
