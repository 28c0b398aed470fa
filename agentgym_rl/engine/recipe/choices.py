"""Choices that need no file: the typed classes, and installed environments."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf

from agentgym_rl.algorithms import Algorithm
from agentgym_rl.algorithms.curriculum.turn_limit import TurnLimit
from agentgym_rl.algorithms.installed import read
from agentgym_rl.algorithms.mixture import Mixture
from agentgym_rl.engine.recipe.config import Config, PretrainedModelConfig, TinyModelConfig
from agentgym_rl.engine.recipe.schema import CHOSEN, schema
from agentgym_rl.envs import registry

KINDS: dict[str, tuple[str, type]] = {
    "algorithm": ("agentgym_rl.algorithms", Algorithm),
    "curriculum": ("agentgym_rl.curricula", TurnLimit),
    "mixture": ("agentgym_rl.mixtures", Mixture),
}
"""Entry-point group and base class, by the group that chooses among them."""


def installed() -> dict[str, Mapping[str, Any]]:
    """Classes by name, by the group that chooses among them."""
    return {group: read(*kind).classes for group, kind in KINDS.items()}


class Choices(ConfigSource):
    """Hydra reads them from here, where a group has no file of that name."""

    @staticmethod
    def scheme() -> str:
        return "choices"

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return bool(_options(config_path.rstrip("/")))

    def is_config(self, config_path: str) -> bool:
        group, _, option = config_path.rpartition("/")
        return option in _options(group)

    def list(self, config_path: str, results_filter: ObjectType | None) -> builtins.list[str]:
        return [] if results_filter is ObjectType.GROUP else sorted(_options(config_path))

    def load_config(self, config_path: str) -> ConfigResult:
        group, _, option = config_path.rpartition("/")
        if group == "env":
            node, package = OmegaConf.create({option: {"panels": {"test": {"split": "test"}}}}), "envs"
        else:
            node, package = deepcopy(_structured(_options(group)[option], CHOSEN.get(group), option)), None
        return ConfigResult(self.provider, f"{self.scheme()}://{config_path}", node, {"package": package})


OURS: dict[str, dict[str, Any]] = {
    "": {"schema": Config},
    "model": {"tiny": TinyModelConfig, "hf": PretrainedModelConfig},
}
"""The classes that no entry point names, by group."""


def _options(group: str) -> Mapping[str, Any]:
    """Typed classes by the names of a group's choices; an environment has none."""
    if group in KINDS:
        return {name: kind.Config for name, kind in read(*KINDS[group]).classes.items()}
    if group == "env":
        return dict.fromkeys(registry.available())
    return OURS.get(group, {})


@cache
def _structured(kind: Any, key: str | None, option: str) -> Any:
    """A class as OmegaConf composes it, which takes some milliseconds; ``key`` holds the choice."""
    return OmegaConf.structured(schema(kind)(**{key: option}) if key else schema(kind))
