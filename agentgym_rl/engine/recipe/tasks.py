"""The tasks of a run: training pools and validation panels, checked before anything starts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

from agentgym_rl.algorithms import Algorithm, algorithms
from agentgym_rl.algorithms.base import Needs, OnlineConfig
from agentgym_rl.algorithms.bc import Cloning
from agentgym_rl.algorithms.mixture import Mixture, Pools, mixtures
from agentgym_rl.algorithms.optimizer import OptimizerConfig
from agentgym_rl.algorithms.scaling_inter import Curriculum, TurnLimit, curricula
from agentgym_rl.data.overlap import COMPARED, Games, Overlap, demonstrated, overlaps_of
from agentgym_rl.data.panels import digest, indices_of, sample, select, warn_of_other_ids
from agentgym_rl.engine.recipe.config import Config, Device, EnvConfig, Mode
from agentgym_rl.engine.recipe.schema import RecipeError, read, to_dict
from agentgym_rl.envs import Task, TextEnv, make
from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.hosts import HostSettings, LocalHost, open_host
from agentgym_rl.envs.numbering import Panel
from agentgym_rl.envs.registry import base_name
from agentgym_rl.rollout.settings import RolloutSettings


def open_env(config: Config, name: str) -> TextEnv:
    """An environment of the run in this process, whatever its host, with its options and the run's wording."""
    return make(name, **{**config.envs[name].options, "style": config.rollout.style})


def hosted_env(config: Config, name: str) -> TextEnv:
    """An environment of the run with the tasks that its host has; servers are asked, unless they were before.

    Raises:
        ValueError: ``envs.<name>.host`` is wrong.
        EnvError: a server does not answer, or does not have the environment.
    """
    if (settings := host_of(config, name)).kind != "remote":
        return open_env(config, name)
    return open_host(settings).facts(name, {**config.envs[name].options, "style": config.rollout.style})


def is_local(config: Config, panel: Panel) -> bool:
    """Whether the environment in this process has the tasks of a panel; a server may have others."""
    env = open_env(config, panel.env)
    try:
        return digest(env, [Task.parse(item_id) for item_id in panel.item_ids]) == panel.digest
    except TaskNotFound:
        return False


def chosen(config: Config) -> Algorithm[Any]:
    """The algorithm of the run."""
    algorithm: Algorithm[Any] = algorithms()[config.algorithm.name](config.algorithm)
    return algorithm


def needs(config: Config) -> Needs:
    """What the algorithm of the run needs."""
    return chosen(config).needs(config.algorithm)


def learns_from_demonstrations(config: Config) -> bool:
    """Whether the run learns from demonstrations, if it has some."""
    own = needs(config)
    asked = own.cloning or own.demonstrations or own.takes_demonstrations
    return asked or config.run.control or bool(config.cloning.epochs)


def optimizer(config: Config, stage: str) -> OptimizerConfig:
    """Settings of the updates of a stage; the control repeats those of the algorithm."""
    if stage == Cloning.stage:
        return config.cloning.optimizer
    return config.algorithm.optimizer if isinstance(config.algorithm, OnlineConfig) else OptimizerConfig()


def max_turns(config: Config, env: str) -> int | None:
    """The turn limit of an environment's episodes; None takes its own."""
    return config.envs[env].max_turns or config.rollout.max_turns


def replayable(config: Config) -> list[str]:
    """Environments of the run in which a prefix of actions can be replayed."""
    return [name for name in config.envs if open_env(config, name).spec.replayable]


def seeded(config: Config) -> bool:
    """Whether each response is sampled with a seed of its own."""
    engine = config.engine
    wanted = engine.device is Device.CPU if engine.seeded is None else engine.seeded
    return wanted and engine.mode is Mode.SYNC


def rules(config: Config) -> dict[str, Any]:
    """What the recipe says of :class:`RolloutSettings`, in plain types."""
    shared = to_dict(config.rollout)
    return {one.name: shared[one.name] for one in fields(RolloutSettings)}


def host_of(config: Config, name: str) -> HostSettings:
    """Where the episodes of an environment run.

    Raises:
        ValueError: ``envs.<name>.host`` has an unknown key or a value out of range.
    """
    try:
        return HostSettings.of(config.envs[name].host)
    except ValueError as error:
        raise ValueError(f"envs.{name}.{error}") from error


def training_pool(env: TextEnv, config: EnvConfig) -> Sequence[int]:
    """Task indices that training draws from: a split, or the part of it that ``difficulty`` and ``pool`` leave."""
    if config.difficulty is None and config.pool is None:
        return indices_of(env, config.split)
    tasks = sample(env, config.split, config.difficulty, config.pool, config.pool_seed)
    return [task.index for task in tasks]


def draw(pool: Sequence[int], env: str, n: int, seed: int) -> list[Task]:
    """At most ``n`` tasks of a pool, in a seeded order."""
    positions = Random(f"{env}:{seed}").sample(range(len(pool)), min(n, len(pool)))
    return [Task(env, pool[position]) for position in positions]


def mixture(config: Config) -> Mixture[Any]:
    """How the run's training episodes are shared among environments and tasks.

    Raises:
        ValueError: names the key under ``mixture`` or the environment that is wrong.
    """
    envs = {name: hosted_env(config, name) for name in config.envs}
    algorithm = config.algorithm
    pools = Pools(
        tasks={name: training_pool(env, config.envs[name]) for name, env in envs.items()},
        shares={name: env.share for name, env in config.envs.items()},
        seed=config.seed,
        difficulty=lambda task: envs[task.env].difficulty(task),
        fewest_samples=needs(config).samples_per_task,
    )
    found = mixtures()[config.mixture.type](config.mixture, pools)
    if isinstance(algorithm, OnlineConfig):
        found.bounds(algorithm.samples_per_task)
    return found


def curriculum(config: Config) -> Curriculum:
    """The turn limits of training episodes.

    Raises:
        RecipeError: a key of ``envs.<name>.curriculum`` is unknown, or a value out of range.
    """
    return Curriculum({name: _limit(config, f"envs.{name}", env) for name, env in config.envs.items()})


def _limit(config: Config, place: str, env: EnvConfig) -> TurnLimit[Any]:
    """An environment's own keys go before those of the run that its curriculum has, too."""
    own: Mapping[str, Any] = env.curriculum
    kinds, run = curricula(), to_dict(config.curriculum)
    chosen = own.get("type", config.curriculum.type)
    if chosen not in kinds:
        raise RecipeError(f"{place}.curriculum.type={chosen!r} is unknown; choose {', '.join(sorted(kinds))}")
    kind = kinds[chosen]
    keys = {one.name for one in fields(kind.Config)}
    shared = {key: value for key, value in run.items() if key in keys}
    return kind(read(kind.Config, {**shared, "type": chosen, **own}, f"{place}.curriculum"))


def panels(config: Config) -> dict[str, dict[str, Panel]]:
    """Validation panels by environment and name.

    Raises:
        ValueError: a split or difficulty does not exist where the environment runs, or holds fewer tasks than asked
            for.
        EnvError: a server does not answer, or does not have the environment.
    """
    found: dict[str, dict[str, Panel]] = {}
    for name, env in config.envs.items():
        settings = host_of(config, name)
        host = open_host(settings) if settings.kind == "remote" else LocalHost()
        found[name] = {
            label: select(name, panel.split, panel.difficulty, panel.n, panel.seed, env.options, host)
            for label, panel in env.panels.items()
        }
    return found


def overlaps(
    config: Config, panels: Mapping[str, Mapping[str, Panel]], files: Mapping[str, Path]
) -> dict[str, dict[str, Overlap]]:
    """How many tasks of each panel are among those that the run learns from, by environment and panel.

    The parts of an environment count together. Contents are not asked of servers, where each takes an episode.

    Args:
        files: demonstrations by environment.

    Raises:
        EnvError: an environment cannot tell what a task shows.
    """
    envs = {name: hosted_env(config, name) for name in config.envs}
    training = {name: training_pool(env, config.envs[name]) for name, env in envs.items()}
    cloned = {name: demonstrated(env, files[name]) for name, env in envs.items() if name in files}
    found: dict[str, dict[str, Overlap]] = {}
    for name, env in envs.items():
        if (source := config.envs[name].demonstrations_file) is not None:
            warn_of_other_ids(env, source)
        parts = [part for part in envs if base_name(part) == base_name(name)]
        games = Games(env, 0 if host_of(config, name).kind == "remote" else COMPARED)
        learned = [[index for part in parts for index in of.get(part, ())] for of in (training, cloned)]
        found[name] = asyncio.run(overlaps_of(games, panels[name], *learned))
    return found
