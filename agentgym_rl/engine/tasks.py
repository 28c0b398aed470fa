"""The tasks of a run: training pools and validation panels, checked before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from agentgym_rl.algorithms import ALGORITHMS
from agentgym_rl.algorithms.mixture import Mixture, build
from agentgym_rl.data.panels import Panel, sample, select
from agentgym_rl.engine.config import Config, WorldConfig
from agentgym_rl.envs import Task, TextEnv, make


def open_world(config: Config, name: str) -> TextEnv:
    """A session of a world of the run, with its options and the run's wording."""
    return make(name, **{**config.worlds[name].options, "style": config.rollout.style})


def training_pool(world: TextEnv, config: WorldConfig) -> Sequence[int]:
    """Task indices that training draws from: a split, or the part of it that ``difficulty`` and ``pool`` leave."""
    if config.difficulty is None and config.pool is None:
        if config.split not in world.spec.splits:
            raise ValueError(f"{world.spec.name} has no split {config.split!r}; it has: {', '.join(world.spec.splits)}")
        return world.spec.splits[config.split]
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
