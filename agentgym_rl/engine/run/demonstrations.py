"""Expert trajectories of a run, as AgentTraj files and as tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym_rl.data import agenttraj
from agentgym_rl.data.files import on_hub
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.envs.formats import reader
from agentgym_rl.rollout.collect import collect
from agentgym_rl.rollout.supervised import Example, encode, encode_segments


def files(run: Resolved, folder: Path, progress: Callable[[str, int, int], None] | None = None) -> dict[str, Path]:
    """The AgentTraj file of each env: the recipe's own, or oracle trajectories collected once into the run's folder.

    Raises:
        FileNotFoundError: a file that the recipe names does not exist.
        ValueError: the training tasks are fewer than the trajectories asked for.
    """
    paths: dict[str, Path] = {}
    for name, env in run.config.envs.items():
        if env.demonstrations_file is not None:
            paths[name] = Path(env.demonstrations_file)
            if not (paths[name].is_file() or on_hub(env.demonstrations_file)):
                raise FileNotFoundError(f"envs.{name}.demonstrations_file {env.demonstrations_file} does not exist")
        elif env.demonstrations:
            paths[name] = folder / "demonstrations" / f"{name}.json"
            if paths[name].is_file():
                continue
            report = None if progress is None else (lambda done, total, name=name: progress(name, done, total))
            asyncio.run(
                collect(
                    name,
                    env.split,
                    paths[name],
                    n=env.demonstrations,
                    seed=run.config.seed if env.pool is None else env.pool_seed,
                    settings=replace(run.rules, max_turns=run.max_turns(name)),
                    difficulty=env.difficulty,
                    options=env.options,
                    progress=report,
                )
            )
    return paths


def examples(run: Resolved, paths: dict[str, Path], tokenizer: Any, builder: Any) -> list[Example]:
    """The trajectories as supervised examples, env after env; in segments as the run's own episodes are.

    Raises:
        ContextTooSmall: one takes more tokens than the model's context.
        ValueError: a file is not AgentTraj JSON, or has no trajectory of its environment.
    """
    model, settings = run.config.model, run.rules
    found: list[Example] = []
    for name, path in paths.items():
        parse = reader(run.local[name].spec, settings.action_format)
        for trajectory in agenttraj.of_env(path, name):
            if settings.one_segment:
                found.append(encode(trajectory, tokenizer, builder, model.context))
                continue
            found += asyncio.run(
                encode_segments(
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
