"""Trajectories as tokens, in one call."""

from __future__ import annotations

import asyncio
from typing import Any

import toy

from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.formats import reader
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.supervised import Example, encode

PARSE = reader(toy.Counter("compact").spec, ActionFormat.REACT)
COMPACT = RolloutSettings(style="compact")


def encoded(
    trajectory: Trajectory, tokenizer: Any, builder: Any, *, prompt_limit: int = 10_000, response_limit: int = 0,
    settings: RolloutSettings = COMPACT, parse: Any = PARSE,
) -> tuple[Episode, list[Example]]:  # fmt: skip
    """See :func:`encode`; the defaults are one segment of any length."""
    return asyncio.run(
        encode(trajectory, tokenizer, builder, env="counter", prompt_limit=prompt_limit, response_limit=response_limit,
               settings=settings, parse=parse)
    )  # fmt: skip


def whole(trajectory: Trajectory, tokenizer: Any, builder: Any, limit: int = 10_000) -> Example:
    """The one segment of a conversation that is not cut."""
    (example,) = encoded(trajectory, tokenizer, builder, prompt_limit=limit)[1]
    return example


def places(episode: Episode) -> list[tuple[str, int, tuple[int, int]]]:
    """Of each turn its response, and where its tokens are."""
    return [(turn.response, turn.segment, turn.tokens) for turn in episode.turns]
