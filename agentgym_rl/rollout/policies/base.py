"""Who plays a task when trajectories are collected."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import OracleUnavailable, Task, TextEnv
from agentgym_rl.rollout.conversation import Scripted
from agentgym_rl.rollout.loop import play
from agentgym_rl.rollout.policies.scripted import OraclePolicy, RandomPolicy
from agentgym_rl.rollout.settings import RolloutSettings

Play = Callable[[TextEnv, Task, int], Awaitable[Episode | None]]
"""Plays a task in a session; the number is that of the sample. None where there is nothing to say."""


@dataclass(slots=True)
class Usage:
    """What a language model was asked for."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Player:
    """Somebody who plays."""

    name: str
    """Tells one from another when a collection goes on: a model's with its address."""
    play: Play
    usage: Usage | None = None
    """Counted up while a language model plays."""


def oracle(settings: RolloutSettings) -> Player:
    """Plays what the world itself says; a task it knows no way for is passed over."""

    async def one(world: TextEnv, task: Task, sample: int) -> Episode | None:
        try:
            commands = world.oracle(task)
        except OracleUnavailable:
            commands = []
        if not commands:
            return None
        player = OraclePolicy(commands, world, settings.action_format)
        horizon = min(settings.max_turns or world.spec.max_turns, len(commands))
        episode, _ = await play(lambda: world, task, lambda: Scripted(player), settings, horizon)
        return episode

    return Player("oracle", one)


def chance(settings: RolloutSettings, seed: int) -> Player:
    """Plays at random among the actions the world lists."""

    async def one(world: TextEnv, task: Task, sample: int) -> Episode:
        name = f"{seed} {task}" if sample == 0 else f"{seed} {task} {sample}"
        player = RandomPolicy(name, world, settings.action_format)
        episode, _ = await play(lambda: world, task, lambda: Scripted(player), settings, watch=player.watch)
        return episode

    return Player("random", one)
