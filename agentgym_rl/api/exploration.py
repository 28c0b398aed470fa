"""Tasks for a server of tools in one call, and what it takes."""

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
from agentgym_rl.data.files import alone, check_file
from agentgym_rl.engine.run.local_model import folder_of
from agentgym_rl.envs.core import Task
from agentgym_rl.envs.mcp import MCP
from agentgym_rl.envs.mcp.tasks import task_of
from agentgym_rl.envs.tables import json_list
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.eval.practice.exploration import Exploration, Explored
from agentgym_rl.eval.practice.explore import ENV, Explorer
from agentgym_rl.eval.practice.giveaways import Giveaways
from agentgym_rl.rollout import pretrained
from agentgym_rl.rollout.journal import beside
from agentgym_rl.rollout.loop import check_rules
from agentgym_rl.rollout.policies import Policy


@dataclass(kw_only=True)
class ExploreRequest(Writing):
    """What to explore; ``options.mcp`` names the server."""

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
            ValueError: another process is at it, or the file is there already.
        """
        journal = beside(self.out)
        if self.out.exists() and not journal.exists():
            raise ValueError(f"{self.out} exists; choose another out=, or delete it")
        with alone(journal, self.out):
            return asyncio.run(closing_all(self.models, self.explorer.run()))


def prepare(env: str, request: ExploreRequest, fetch: Callable[[str], str] = pretrained.local) -> Prepared:
    """Ask the server for its tools and open policy and writer; no episode runs.

    Args:
        env: ``mcp``.

    Raises:
        ValueError, FileNotFoundError: an argument is wrong, or policy or writer is none that reads or writes.
        EnvUnavailable, EnvTimeout: the server does not start.
    """
    if env != ENV:
        raise ValueError(f"tasks are written for servers of tools, {ENV}, not for {env}")
    check_models(request)
    if request.out is None:
        raise ValueError("out= is missing, such as out=tasks.jsonl")
    check_file(request.out, ".jsonl")
    rules = evaluation.changed(rules_of(folder_of(request.policy, fetch)) or Rules(), request)
    if others := [name for name in request.options if name != ENV]:
        raise ValueError(f"options.{others[0]} has no effect: {ENV} is explored")
    options = rules.session_options(ENV)
    if "server" not in options:
        raise ValueError(f"options.{ENV}.server= is missing: the command or URL of the server to explore")
    world = MCP(**options)
    check_rules(world, rules.of_env(ENV))
    without = {key: value for key, value in rules.options_of(ENV).items() if key != "tasks"}
    policy, writer = open_models(request, rules)
    exploration = Exploration(
        rules=replace(rules, options={ENV: without}), tools=world.spec.tools, policy=policy.name, writer=writer.name,
        given=world.tasks, giveaways=Giveaways.of((world, Task(ENV, index)) for index in range(len(world.tasks))),
        setup=_setup(request.setup), tasks=request.tasks, rollouts=request.rollouts, ideas=request.ideas,
        test=request.test, temperature=request.temperature, seed=request.seed, min_counted=request.min_counted,
    )  # fmt: skip
    explorer = Explorer(
        exploration=exploration, policy=policy, writer=writer, out=request.out,
        concurrency=16 if request.concurrency is None else request.concurrency,
    )  # fmt: skip
    return Prepared(explorer)


def _setup(file: Path | None) -> list[Any]:
    """The calls of a file. Raises ValueError: it holds none."""
    if file is None:
        return []
    calls = json_list(file)
    try:
        task_of({"instruction": "Explore.", "check": {"answer": ""}, "setup": calls}, file.parent)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return calls
