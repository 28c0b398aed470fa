"""The tasks of a run: training pools and validation panels, checked before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from random import Random
from typing import Any

from agentgym_rl.algorithms import ALGORITHMS
from agentgym_rl.algorithms.mixture import Mixture, build
from agentgym_rl.algorithms.scaling_inter import Curriculum, CurriculumSettings, ScalingInter
from agentgym_rl.data.panels import Panel, indices_of, sample, select
from agentgym_rl.engine.recipe.config import Config, RolloutConfig, WorldConfig
from agentgym_rl.envs import Task, TextEnv, make
from agentgym_rl.envs.hosts import HostSettings
from agentgym_rl.rollout.settings import RolloutSettings


def open_world(config: Config, name: str) -> TextEnv:
    """A world of the run in this process, whatever its host, with its options and the run's wording."""
    return make(name, **{**config.worlds[name].options, "style": config.rollout.style})


def rules(config: Config) -> dict[str, Any]:
    """What the recipe says of :class:`RolloutSettings`."""
    shared = {field.name for field in fields(RolloutSettings)} & {field.name for field in fields(RolloutConfig)}
    return {name: getattr(config.rollout, name) for name in sorted(shared)}


def host_of(config: Config, name: str) -> HostSettings:
    """Where the episodes of a world run.

    Raises:
        ValueError: ``worlds.<name>.host`` has an unknown key or a value out of range.
    """
    try:
        return HostSettings.of(config.worlds[name].host)
    except ValueError as error:
        raise ValueError(f"worlds.{name}.{error}") from error


def training_pool(world: TextEnv, config: WorldConfig) -> Sequence[int]:
    """Task indices that training draws from: a split, or the part of it that ``difficulty`` and ``pool`` leave."""
    if config.difficulty is None and config.pool is None:
        return indices_of(world, config.split)
    tasks = sample(world, config.split, config.difficulty, config.pool, config.pool_seed)
    return [task.index for task in tasks]


def draw(pool: Sequence[int], env: str, n: int, seed: int) -> list[Task]:
    """At most ``n`` tasks of a pool, in a seeded order."""
    positions = Random(f"{env}:{seed}").sample(range(len(pool)), min(n, len(pool)))
    return [Task(env, pool[position]) for position in positions]


def mixture(config: Config) -> Mixture:
    """How the run's training episodes are shared among worlds and tasks.

    Raises:
        ValueError: names the key under ``mixture`` or the world that is wrong.
    """
    worlds = {name: open_world(config, name) for name in config.worlds}
    fewest = 2 if ALGORITHMS[config.algorithm.name].grouped else 1
    settings = replace(config.mixture, min_samples=max(fewest, config.mixture.min_samples))
    settings.bounds(config.algorithm.samples)
    return build(
        settings,
        {name: training_pool(world, config.worlds[name]) for name, world in worlds.items()},
        {name: world.share for name, world in config.worlds.items()},
        config.seed,
        lambda task: worlds[task.env].difficulty(task),
    )


def curriculum(config: Config) -> Curriculum:
    """The turn limits of training episodes; a world's own keys go before those of the run.

    Raises:
        ValueError: a world's key is unknown or a value out of range.
    """
    run = config.algorithm.rounds_ctrl.settings() or config.curriculum
    return Curriculum({name: ScalingInter.of(_departing(run, name, world)) for name, world in config.worlds.items()})


def _departing(run: CurriculumSettings, name: str, world: WorldConfig) -> CurriculumSettings:
    try:
        return replace(run, **world.curriculum)
    except (TypeError, ValueError) as error:
        raise ValueError(f"worlds.{name}.curriculum: {error}") from error


def panels(config: Config) -> dict[str, dict[str, Panel]]:
    """Validation panels by world and name.

    Raises:
        ValueError: a split or difficulty does not exist, or holds fewer tasks than asked for.
    """
    return {
        name: {
            label: select(name, panel.split, panel.difficulty, panel.n, panel.seed, world.options)
            for label, panel in world.panels.items()
        }
        for name, world in config.worlds.items()
    }
