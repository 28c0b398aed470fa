"""Tasks for an environment that has none in one call, and what it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym_rl.algorithms.checks import above, at_least
from agentgym_rl.api import evaluation
from agentgym_rl.api.policies import rules_of
from agentgym_rl.api.request import Writing
from agentgym_rl.api.writing import check_models, closing_all, distinct, open_models
from agentgym_rl.data.files import check_file
from agentgym_rl.engine.run.local_model import folder_of
from agentgym_rl.envs import registry
from agentgym_rl.envs.core import EnvError, Task, UnknownEnv
from agentgym_rl.envs.explorable import Explorable, Found
from agentgym_rl.envs.tables import json_list, read_jsonl
from agentgym_rl.envs.tooluse.written import calls_of
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.eval.practice.exploration import Exploration, Explored
from agentgym_rl.eval.practice.explore import Explorer
from agentgym_rl.eval.practice.giveaways import Giveaways, solution_of
from agentgym_rl.rollout import pretrained
from agentgym_rl.rollout.journal import beside
from agentgym_rl.rollout.loop import check_rules
from agentgym_rl.rollout.policies import Policy


@dataclass(kw_only=True)
class ExploreRequest(Writing):
    """How to explore; ``options`` are those of the environment."""

    temperature: float = 1.0
    min_counted: float = 0.5
    tasks: int = 50
    rollouts: int = 200
    ideas: int = 3
    test: float = 0.2
    setup: Path | None = None
    """A JSON list of calls, as ``setup`` of a file of tasks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "tasks", "rollouts", "ideas")
        above(self, 0, "temperature")
        if not 0 <= self.test <= 1:
            raise ValueError(f"test={self.test:g} is no share; give a number from 0 to 1")


@dataclass(frozen=True)
class Prepared:
    """An exploration that can start."""

    explorer: Explorer

    @property
    def out(self) -> Path:
        return self.explorer.out

    @property
    def models(self) -> list[Policy]:
        """See :func:`agentgym_rl.api.writing.distinct`."""
        return distinct(self.explorer.policy, self.explorer.writer)

    def run(self) -> Explored:
        """Explore, or what is missing of it; see :meth:`agentgym_rl.eval.practice.explore.Explorer.run`.

        Raises:
            ValueError: the file is there already.
        """
        if self.out.exists() and not beside(self.out).exists():
            raise ValueError(f"{self.out} exists; choose another out=, or delete it")
        return asyncio.run(closing_all(self.models, self.explorer.run()))


def prepare(env: str, request: ExploreRequest, fetch: Callable[[str], str] = pretrained.local) -> Prepared:
    """Open the environment, policy and writer; no episode runs.

    Args:
        env: name of an environment that is :class:`agentgym_rl.envs.explorable.Explorable`.

    Raises:
        ValueError, FileNotFoundError: an argument is wrong, the environment cannot be explored, or policy or writer is
            none that reads or writes.
        EnvError: there is no such environment, or it cannot run here.
    """
    if not _explorable(env):
        known = ", ".join(filter(_explorable, registry.available()))
        raise ValueError(f"{env} cannot be explored: it takes no file of tasks; give one of {known}")
    check_models(request)
    if request.out is None:
        raise ValueError("out= is missing, such as out=tasks.jsonl")
    check_file(request.out, ".jsonl")
    rules = evaluation.changed(rules_of(folder_of(request.policy, fetch)) or Rules(), request)
    if others := [name for name in request.options if name != env]:
        raise ValueError(f"options.{others[0]} has no effect: {env} is explored")
    world = registry.make(env, **rules.session_options(env))
    assert isinstance(world, Explorable)
    if world.lacks:
        raise ValueError(world.lacks)
    check_rules(world, rules.of_env(env))
    options = rules.options_of(env)
    given = _given(world, options.pop("tasks", None))
    setup = _setup(request.setup, world)
    policy, writer = open_models(request, rules)
    exploration = Exploration(
        env=env, rules=replace(rules, options={env: options}), policy=policy.name, writer=writer.name,
        weights=(policy.weights, writer.weights), given=[task for task, _ in given],
        giveaways=Giveaways.of_solutions((task.instruction, solution) for task, solution in given),
        setup=setup, tasks=request.tasks, rollouts=request.rollouts, ideas=request.ideas,
        test=request.test, temperature=request.temperature, seed=request.seed, min_counted=request.min_counted,
    )  # fmt: skip
    explorer = Explorer(
        exploration=exploration, world=world, policy=policy, writer=writer, out=request.out,
        concurrency=16 if request.concurrency is None else request.concurrency,
    )  # fmt: skip
    return Prepared(explorer)


def _explorable(env: str) -> bool:
    """Raises UnknownEnv: there is no such environment."""
    try:
        return issubclass(registry.env_class(env), Explorable)
    except UnknownEnv:
        raise
    except EnvError:  # it misses a package
        return False


def _given(world: Explorable, file: str | None) -> list[tuple[Found, tuple[str, ...]]]:
    """The tasks of a file, with the commands of their oracles."""
    lines = [] if file is None else list(read_jsonl(file))
    solutions = [solution_of(world, Task(world.name, index)) for index in range(len(lines))]
    return [
        (Found(instruction=line["instruction"], calls=[*filter(None, map(world.call, solution))]), solution)
        for line, solution in zip(lines, solutions, strict=True)
    ]


def _setup(file: Path | None, world: Explorable) -> list[Any]:
    """The calls of a file. Raises ValueError: it holds none, or the environment has none."""
    if file is None:
        return []
    if world.by_one_call:
        raise ValueError(f"setup= has no effect: nothing in {world.name} can be changed")
    listed, names = json_list(file), [tool.name for tool in world.probes]
    try:
        calls = calls_of(listed, "setup")
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    if unknown := [name for name, _ in calls if name not in names]:
        raise ValueError(f"{file}: {world.name} has no tool {unknown[0]!r}; it has {', '.join(names)}")
    return listed
