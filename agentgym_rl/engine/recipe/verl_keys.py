"""Keys of verl under ``verl``: which of them may be given."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.algorithms.config import AlgorithmConfig
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.envs.tables import load


@dataclass(frozen=True)
class VerlKeys:
    """The file ``verl_keys.toml``."""

    open: tuple[str, ...]
    read_every_step: tuple[str, ...]
    read: dict[str, tuple[str, ...]]
    whole: dict[str, int]
    harmful: dict[str, str]
    ignored: dict[str, str]
    own: dict[str, str]


KEYS = load(Path(__file__).with_name("verl_keys.toml"), VerlKeys)
ENGINES = "actor_rollout_ref.rollout.engine_kwargs"
"""Arguments of inference engines, by their names."""


def is_open(key: str) -> bool:
    """True if a dotted key lies in one of verl's mappings that take any key."""
    return any(_in(key, mapping) for mapping in KEYS.open)


def refusal(key: str, ours: Collection[str] = ()) -> str:
    """Why a dotted key of verl may not be given in any run, or which key of ours to set; empty if it may be given."""
    for known, why in KEYS.harmful.items():
        if _in(key, known):
            return f"is refused: {why}"
    for known, setting in KEYS.own.items():
        if _overlap(key, known):
            return f"is set by {setting}; set that"
    for known, why in KEYS.ignored.items():
        if _overlap(key, known):
            return f"has no effect: {why}"
    if any(_in(key, known) for keys in KEYS.read.values() for known in keys):
        return ""
    if any(_overlap(key, each) for each in ours):
        return "is set by this package and cannot be changed"
    return "has no effect: nothing in a run reads it"


def check_verl_keys(given: Mapping[str, Any], ours: Collection[str]) -> None:
    """No key of verl is given that this package sets, but for defaults, or that has no effect here.

    Args:
        given: dotted keys under ``verl``, which verl has, with their values.
        ours: dotted keys that ``verl_config`` sets.

    Raises:
        RecipeError: names the key and says why, or which key of ours to set.
    """
    engine = str(given.get("actor_rollout_ref.rollout.name", "vllm"))
    for key in given:
        why = refusal(key, ours)
        if _in(key, ENGINES) and not _in(key, f"{ENGINES}.{engine}"):
            why = f"has no effect: {engine} generates"
        if why:
            raise RecipeError(f"verl.{key} {why}")


def check_sampling(given: Mapping[str, Any], algorithm: AlgorithmConfig) -> None:
    """A policy gradient's probability ratios are those of the whole distribution.

    Raises:
        RecipeError: a policy gradient would sample from a part of it; names the key.
    """
    for key, neutral in KEYS.whole.items():
        if algorithm.policy_gradient is not None and given.get(key, neutral) != neutral:
            raise RecipeError(
                f"verl.{key}={given[key]} is refused: the ratios of algorithm={algorithm.name} would be biased; leave "
                f"it at {neutral}, or set rollout.temperature"
            )


def _in(key: str, other: str) -> bool:
    """True if a dotted key is another, or below it."""
    return f"{key}.".startswith(f"{other}.")


def _overlap(key: str, other: str) -> bool:
    return _in(key, other) or _in(other, key)
