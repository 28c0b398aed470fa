"""Expert trajectories of a run, as AgentTraj files and as tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentgym_rl.data import agenttraj
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.recipe.tasks import open_world, rules
from agentgym_rl.envs.formats import reader
from agentgym_rl.rollout.collect import collect
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.supervised import Example, encode, encode_folded


def files(config: Config, folder: Path, progress: Callable[[str, int, int], None] | None = None) -> dict[str, Path]:
    """The AgentTraj file of each world: the recipe's own, or oracle trajectories collected once into the run's folder.

    Raises:
        FileNotFoundError: a file that the recipe names does not exist.
        ValueError: the training tasks are fewer than the trajectories asked for.
    """
    paths: dict[str, Path] = {}
    for name, world in config.worlds.items():
        if world.expert_file is not None:
            paths[name] = Path(world.expert_file)
            if not paths[name].is_file():
                raise FileNotFoundError(f"worlds.{name}.expert_file {world.expert_file} does not exist")
        elif world.experts:
            paths[name] = folder / "experts" / f"{name}.json"
            if paths[name].is_file():
                continue
            report = None if progress is None else (lambda done, total, name=name: progress(name, done, total))
            asyncio.run(
                collect(
                    name,
                    world.split,
                    paths[name],
                    n=world.experts,
                    seed=config.seed if world.pool is None else world.pool_seed,
                    settings=RolloutSettings.from_mapping(
                        {
                            "style": config.rollout.style,
                            "action_format": config.rollout.action_format,
                            "max_turns": world.max_turns,
                        }
                    ),
                    difficulty=world.difficulty,
                    options=world.options,
                    progress=report,
                )
            )
    return paths


def examples(config: Config, paths: dict[str, Path], tokenizer: Any, builder: Any) -> list[Example]:
    """The trajectories as supervised examples, world after world; folded as the run's own episodes are.

    Raises:
        ContextTooSmall: one takes more tokens than the model's context.
        ValueError: a file is not AgentTraj JSON.
    """
    model, settings = config.model, RolloutSettings.from_mapping(rules(config))
    found: list[Example] = []
    for name, path in paths.items():
        parse = reader(open_world(config, name).spec, settings.action_format)
        for trajectory in agenttraj.read(path):
            if settings.context == "full":
                found.append(encode(trajectory, tokenizer, builder, model.prompt_tokens + model.response_tokens))
                continue
            found += asyncio.run(
                encode_folded(
                    trajectory,
                    tokenizer,
                    builder,
                    prompt_limit=model.prompt_tokens,
                    response_limit=model.response_tokens,
                    settings=settings,
                    parse=parse,
                )
            )
    return found
