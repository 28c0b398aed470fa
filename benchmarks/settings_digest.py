"""The digest of a study's settings, the same as when its results were recorded.

Results outlive the names of keys. A digest is taken over the names, and the defaults, of the version that made the
first one; a key that was given another name since is in :data:`NAMES`, and in :data:`DEFAULTS` if it was given another
default, or one that goes by the kind of algorithm, curriculum, mixture or model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from agentgym_rl.algorithms.distill import DistillConfig
from agentgym_rl.engine.recipe.config import BudgetConfig, Config, LoggerConfig

NAMES = {
    "envs": "worlds",
    "envs.*.demonstrations": "experts",
    "envs.*.demonstrations_file": "expert_file",
    "rollout.max_new_tokens": "turn_tokens",
    "cloning": "bc",
    "cloning.mini_batch_trajectories": "batch",
    "algorithm.tasks_per_step": "tasks",
    "algorithm.samples_per_task": "samples",
    "algorithm.mini_batch_tasks": "minibatch",
    "algorithm.mini_batch_trajectories": "minibatch",
    "algorithm.mini_batch_pairs": "minibatch",
}
"""First names of keys; ``*`` stands for an environment."""

DEFAULTS: dict[str, Any] = {
    "rollout.context": "full",
    "model.prompt_tokens": 1024,
    "model.response_tokens": 8192,
    "algorithm.steps": 0,
    "algorithm.tasks_per_step": 32,
    "algorithm.samples_per_task": 8,
    "algorithm.lr": 1e-6,
    "algorithm.mini_batch_tasks": 32,
    "algorithm.mini_batch_trajectories": 32,
    "algorithm.mini_batch_pairs": 32,
    "algorithm.epochs": 1,
    "algorithm.gamma": 1.0,
    "algorithm.pairs_per_task": 1,
    "curriculum.type": "fixed",
    "curriculum.rounds": [],
    "curriculum.steps": 100,
    "mixture.type": "fixed",
    "mixture.smoothing": 0.5,
}
"""First defaults, by the present name."""

BLOCKS = {
    "loss": {"name": "policy_loss", "kl": "kl_loss", "aggregation": "loss_aggregation"},
    "shaping": {"scale": "reward_scale", "normalise": "normalise_rewards"},
    "groups": {"filter": "filter_groups"},
    "correction": {"kind": "correction", "cap": "importance_cap", "bounds": "correction_bounds"},
}
"""First names of the keys of an algorithm's blocks, which first stood beside the others; as now where none is given."""

FIRST: dict[str, dict[Any, Any]] = {
    "engine.micro_tokens": {768: 1280},
    "engine.kv_cache_gib": {0.25: 0.35},
    "engine.threads": {1: None},
}
"""What recipes of engines had first, by the present value: these keys change memory, speed and rounding."""


def digest(config: Config) -> str:
    """First 12 hex digits over every value that is not its key's default, but for where a run is kept and logged.

    A budget has become the algorithm's steps.
    """
    run = replace(config.run, dir="", cache=None)
    beside = f"{Path(config.run.dir or '.').parent}/"  # where other arms' runs and weights are
    if config.model.path is not None:
        config = replace(config, model=replace(config.model, path=config.model.path.removeprefix(beside)))
    if isinstance(algorithm := config.algorithm, DistillConfig):
        config = replace(config, algorithm=replace(algorithm, teacher=algorithm.teacher.removeprefix(beside)))
    bare = chosen(replace(config, run=run, logger=LoggerConfig(), budget=BudgetConfig()))
    for block, names in BLOCKS.items():
        moved = bare.get("algorithm", {}).pop(block, {})
        bare["algorithm"] |= {names.get(key, key): value for key, value in moved.items()}
    if config.curriculum.type == "fixed" and "curriculum" in bare:
        bare["curriculum"]["steps"] = 1  # the recipe `horizon` gave it to every curriculum; a fixed one has it no more
    return hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()[:12]


def chosen(value: Any, path: str = "") -> Any:
    """A configuration without its defaults, so that a key added later does not make these results another's."""
    if isinstance(value, Mapping):
        return {key: chosen(each, f"{path}*.") for key, each in value.items()}
    if not is_dataclass(value):
        return value
    result = {}
    for setting in fields(value):
        key, setting_value = f"{path}{setting.name}", getattr(value, setting.name)
        if key in FIRST:
            setting_value = FIRST[key].get(setting_value, setting_value)
        bare = chosen(setting_value, f"{key}.")
        if (bare != {}) if is_dataclass(setting_value) else (setting_value != default(setting, key)):
            result[NAMES.get(key, setting.name)] = bare
    return result


def default(setting: Field[Any], key: str) -> Any:
    """The first default of a key, or that of its class."""
    return DEFAULTS.get(key, setting.default if setting.default_factory is MISSING else setting.default_factory())
