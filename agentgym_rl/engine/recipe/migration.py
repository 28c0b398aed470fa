"""Our keys in place of AgentGym-RL's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentgym_rl.engine.recipe.verl_keys import refusal
from agentgym_rl.envs.tables import load

_VERL = ("actor_rollout_ref", "critic", "data", "reward_model", "trainer")
"""Groups of verl's configuration, which is AgentGym-RL's, too."""


@dataclass(frozen=True)
class Keys:
    """The file ``agentgym_rl.toml``: for each key what is given in its place, by command."""

    train: dict[str, str]
    eval: dict[str, str]


KEYS = load(Path(__file__).with_name("agentgym_rl.toml"), Keys)


def translated(keys: Iterable[str]) -> str:
    """A line for each key of AgentGym-RL's or verl's among those of ``agentgym-rl train``, and none for others."""
    lines = []
    for key in keys:
        if key in KEYS.train:
            lines.append(f"{key} is AgentGym-RL's; here: {KEYS.train[key]}")
        elif key.partition(".")[0] in _VERL:
            why = refusal(key)
            lines.append(f"{key} is verl's, and {why}" if why else f"{key} is verl's; here: verl.{key}")
    return "\n".join(lines)
