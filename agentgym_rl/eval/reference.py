"""What chance and the oracle reach on a panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.data.panels import Panel
from agentgym_rl.envs import Task, TextEnv, make
from agentgym_rl.envs.core import OracleUnavailable
from agentgym_rl.eval.score import Score, score
from agentgym_rl.rollout.conversation import Scripted
from agentgym_rl.rollout.loop import play
from agentgym_rl.rollout.policies.scripted import OraclePolicy, RandomPolicy
from agentgym_rl.rollout.settings import RolloutSettings


async def reference(
    panel: Panel, policy: str, settings: RolloutSettings, horizon: int | None, options: Mapping[str, Any]
) -> Score:
    """Score of the ``random`` or the ``oracle`` policy, by the same rules as the model's episodes.

    A task whose oracle is unknown or longer than the horizon counts as failed.
    """
    episodes: list[Episode] = []
    for item_id in panel.item_ids:
        task = Task.parse(item_id)
        world = make(panel.env, **{**options, "style": settings.style})
        turns = horizon or settings.max_turns or world.spec.max_turns
        player: OraclePolicy | RandomPolicy = RandomPolicy(item_id, world, settings.action_format)
        if policy == "oracle":
            try:
                commands = world.oracle(task)
            except OracleUnavailable:
                lost = Episode(
                    env=task.env, item_id=item_id, ending=Ending.TURN_LIMIT, reward=0.0, success=False, horizon=turns
                )
                episodes.append(lost)
                continue
            player, turns = OraclePolicy(commands, world, settings.action_format), min(turns, len(commands))
        episode, _ = await play(_always(world), task, partial(Scripted, player), settings, turns, watch=player.watch)
        episodes.append(episode)
    return score(episodes)


def _always(world: TextEnv) -> Callable[[], TextEnv]:
    return lambda: world
