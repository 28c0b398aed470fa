"""What can be known to be wrong before Ray starts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentgym_rl.algorithms import ALGORITHMS
from agentgym_rl.algorithms.scaling_inter import CurriculumSettings
from agentgym_rl.engine.recipe.compose import RecipeError
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.recipe.tasks import draw, host_of, open_world, rules, training_pool
from agentgym_rl.envs import Task, hosts
from agentgym_rl.envs.actions import ActionFormat, parse_react
from agentgym_rl.envs.formats import opening
from agentgym_rl.rollout.conversation import ContextTooSmall
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.tokens import TokenConversation

SAMPLE = 32
"""Tasks of each world whose first observation is measured against the context."""


def check_config(config: Config) -> None:
    """Values that no type can rule out.

    Raises:
        RecipeError: the message names the key.
    """
    if config.algorithm.name not in ALGORITHMS:
        raise RecipeError(
            f"algorithm.name={config.algorithm.name!r} is unknown; choose {', '.join(sorted(ALGORITHMS))}"
        )
    if not config.worlds:
        raise RecipeError("no worlds; choose env=textcraft, env=babyai or env=both")
    if config.engine.device not in ("cpu", "cuda"):
        raise RecipeError(f"engine.device={config.engine.device!r} is unknown; choose cpu or cuda")
    _check_mode(config)
    if config.algorithm.rounds_ctrl.settings() and config.curriculum != CurriculumSettings():
        raise RecipeError("algorithm.rounds_ctrl and curriculum are both set; they mean the same, give one")
    if config.rollout.context != "full" and (
        ALGORITHMS[config.algorithm.name].preferences or config.algorithm.search.calls
    ):
        what = "algorithm=dpo" if ALGORITHMS[config.algorithm.name].preferences else "algorithm.search"
        raise RecipeError(f"{what} needs whole conversations, which rollout.context={config.rollout.context} folds")
    if config.rollout.style not in ("agentgym", "compact"):
        raise RecipeError(f"rollout.style={config.rollout.style!r} is unknown; choose agentgym or compact")
    if config.rollout.action_format not in (formats := [one.value for one in ActionFormat]):
        raise RecipeError(
            f"rollout.action_format={config.rollout.action_format!r} is unknown; choose {', '.join(formats)}"
        )
    if config.logger.wandb not in ("auto", "online", "offline", "disabled"):
        raise RecipeError(f"logger.wandb={config.logger.wandb!r} is unknown; choose auto, online, offline or disabled")
    if config.algorithm.level not in ("token", "turn"):
        raise RecipeError(f"algorithm.level={config.algorithm.level!r} is unknown; choose token or turn")
    kind, model = ALGORITHMS[config.algorithm.name], config.model
    if kind.grouped and config.algorithm.samples < 2:
        raise RecipeError(f"algorithm={kind.name} compares episodes of a task; algorithm.samples must be 2 or more")
    if config.algorithm.level == "turn" and not kind.critic:
        raise RecipeError("algorithm.level=turn is for algorithm=ppo")
    if kind.preferences and config.engine.micro_tokens < 2 * (model.prompt_tokens + model.response_tokens):
        raise RecipeError(
            f"a pair must fit into a micro-batch: raise engine.micro_tokens={config.engine.micro_tokens} to twice the "
            f"context ({2 * (model.prompt_tokens + model.response_tokens)})"
        )
    if config.engine.threads is not None and config.engine.threads < 1:
        raise RecipeError(f"engine.threads must be at least 1 or null, got {config.engine.threads}")
    if config.algorithm.restart_from not in ("base", "current"):
        raise RecipeError(
            f"algorithm.restart_from={config.algorithm.restart_from!r} is unknown; choose base or current"
        )
    roles = {panel.role for world in config.worlds.values() for panel in world.panels.values()}
    if roles - {"test", "validation"}:
        raise RecipeError(f"a panel's role is test or validation, got {', '.join(sorted(roles))}")
    if config.algorithm.keep_best and "validation" not in roles:
        raise RecipeError(
            "algorithm.keep_best chooses by validation success; give a panel role=validation "
            "(worlds.<name>.panels.<label>.role)"
        )
    unknown = sorted(set(config.algorithm.success_threshold) - set(config.worlds))
    if unknown:
        raise RecipeError(f"algorithm.success_threshold names {', '.join(unknown)}, which the run does not have")
    for key, value in (
        ("tasks", config.algorithm.tasks),
        ("samples", config.algorithm.samples),
        ("minibatch", config.algorithm.minibatch),
        ("epochs", config.algorithm.epochs),
        ("max_per_task", config.algorithm.max_per_task),
    ):
        if value < 1:
            raise RecipeError(f"algorithm.{key} must be at least 1, got {value}")
    needs_experts = config.bc.epochs > 0 or config.run.control
    if needs_experts and not any(world.experts or world.expert_file for world in config.worlds.values()):
        raise RecipeError("behaviour cloning needs experts; set worlds.<name>.experts or worlds.<name>.expert_file")
    if config.algorithm.name == "bc" and config.bc.epochs < 1:
        raise RecipeError("algorithm=bc needs bc.epochs of at least 1")
    _check_batches(config)


def _check_mode(config: Config) -> None:
    engine, algorithm = config.engine, config.algorithm
    for key, value, known in (
        ("mode", engine.mode, ("sync", "colocate_async", "separate_async")),
        ("stragglers", engine.stragglers, ("wait", "partial", "cap")),
    ):
        if value not in known:
            raise RecipeError(f"engine.{key}={value!r} is unknown; choose {', '.join(known)}")
    if algorithm.importance_cap < 0:
        raise RecipeError(f"algorithm.importance_cap must not be negative, got {algorithm.importance_cap}")
    if engine.mode == "sync":
        return
    if engine.ahead < 1:
        raise RecipeError(f"engine.ahead must be at least 1 when engine.mode={engine.mode}, got {engine.ahead}")
    if engine.max_staleness < engine.ahead:
        raise RecipeError(
            f"engine.max_staleness={engine.max_staleness} leaves no time for tasks that are begun "
            f"engine.ahead={engine.ahead} steps before; it must be at least as large"
        )
    if engine.mode == "separate_async" and algorithm.tasks % algorithm.minibatch:
        raise RecipeError(
            f"engine.mode=separate_async learns in minibatches as tasks come in: algorithm.minibatch="
            f"{algorithm.minibatch} must divide algorithm.tasks={algorithm.tasks}"
        )


def _check_batches(config: Config) -> None:
    """Each worker takes an equal part of an update; verl finds out only in the worker."""
    algorithm, engine = config.algorithm, config.engine
    workers = engine.workers * engine.nodes
    updates: dict[str, int] = {}
    if config.bc.epochs or config.run.control:
        updates["bc.batch"] = config.bc.batch
    if algorithm.name == "agentevol":
        updates["algorithm.minibatch"] = algorithm.minibatch
    elif ALGORITHMS[algorithm.name].estimator is not None:
        updates["algorithm.minibatch x algorithm.samples"] = algorithm.minibatch * algorithm.samples
    for key, size in updates.items():
        if size < 1 or size % workers:
            raise RecipeError(f"{key} = {size} cannot be shared equally by {workers} workers")
    if engine.workers % engine.tensor_parallel:
        raise RecipeError(
            f"engine.tensor_parallel={engine.tensor_parallel} does not divide engine.workers={engine.workers}"
        )


def check_model(config: Config) -> None:
    """A local model folder must exist before anything is started; ids are left to the hub.

    Raises:
        FileNotFoundError: ``model.path`` looks like a folder that is not there.
    """
    path = config.model.path
    if path is None:
        return
    folder = Path(path).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(f"model.path={path} has no config.json; it is not a Hugging Face model folder")
    elif path.startswith(("/", ".", "~")) or path.count("/") != 1:
        raise FileNotFoundError(
            f"model.path={path} does not exist; give a Hugging Face folder or an id like owner/name"
        )


def check_hosts(config: Config) -> None:
    """Every server that a world is to run on must be there and have the world.

    Raises:
        ValueError: ``worlds.<name>.host`` is wrong.
        EnvError: a server does not answer, or does not have the world; names it.
    """
    for name in config.worlds:
        place = hosts.open_host(host) if (host := host_of(config, name)).kind == "remote" else hosts.LocalHost()
        asyncio.run(place.check(name))


def check_context(config: Config, builder: Any) -> None:
    """Instruction and first observation of some training and validation tasks must fit into the prompt.

    Raises:
        ContextTooSmall: names the world, the tokens needed and the key to raise.
    """
    for name, world_config in config.worlds.items():
        world = open_world(config, name)
        tasks: list[Task] = draw(training_pool(world, world_config), name, SAMPLE, config.seed)
        if (host := host_of(config, name)).kind == "remote":  # its servers may word things in their own way
            world = hosts.open_host(host).open(name, {**world_config.options, "style": config.rollout.style})
        longest = asyncio.run(_longest(world, tasks, builder, ActionFormat(config.rollout.action_format)))
        if longest > config.model.prompt_tokens:
            raise ContextTooSmall(
                f"{name}: instruction and first observation take up to {longest} tokens, more than "
                f"model.prompt_tokens={config.model.prompt_tokens}; raise it, or set rollout.style=compact"
            )
    if config.rollout.context != "full":
        asyncio.run(_check_notes(config, builder))


async def _check_notes(config: Config, builder: Any) -> None:
    """A reply, the question for notes and the notes must fit into the response."""
    conversation = TokenConversation(
        server=None,
        tokenizer=None,
        builder=builder,
        sampling={},
        prompt_limit=config.model.prompt_tokens,
        response_limit=config.model.response_tokens,
        settings=RolloutSettings.from_mapping(rules(config)),
    )
    await conversation.start([{"role": "user", "content": "?"}], parse_react)


async def _longest(world: Any, tasks: list[Task], builder: Any, action_format: ActionFormat) -> int:
    longest = 0
    for task in tasks:
        first = await world.reset(task)
        messages = [*opening(world.spec, world.style, action_format), {"role": "user", "content": first.text}]
        longest = max(longest, len(builder.build_initial_tokens(messages)))
    await world.close()
    return longest
