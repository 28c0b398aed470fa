"""Pictures of what a world looked like, made when an episode is viewed.

A world is drawn where its state follows from the episode: from what was said, or by replaying the commands in the
world of this package. An episode of another version, or of a world that is not installed, goes without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.babyai import drawing as babyai
from agentgym_rl.envs.picture import Picture
from agentgym_rl.envs.textcraft import drawing as textcraft

Drawing = Callable[[Episode], list[Picture | None]]
"""From an episode to its pictures: one before the first turn and one after each turn; None where it is not known."""

DRAWINGS: Mapping[str, Drawing] = {"babyai": babyai.draw, "textcraft": textcraft.draw}
"""By world."""


def draw(episode: Episode) -> list[Picture | None] | None:
    """The pictures of an episode, or None for a world that is not drawn."""
    drawing = DRAWINGS.get(episode.env)
    return drawing(episode) if drawing is not None and episode.messages else None
