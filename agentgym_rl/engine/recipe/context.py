"""Lengths of prompts and episodes against the model's context, measured before Ray starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from agentgym_rl.data.panels import draw
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.envs import Task, TextEnv
from agentgym_rl.envs.actions import parse_react
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.envs.formats import opening
from agentgym_rl.rollout.conversation import ContextTooSmall
from agentgym_rl.rollout.journal import Entry
from agentgym_rl.rollout.loop import timed
from agentgym_rl.rollout.prompts import Prompts
from agentgym_rl.rollout.runner import PATIENCE, Job, run_jobs
from agentgym_rl.rollout.tokens import TokenConversation

MEASURED = 2_000
"""Training tasks of an environment that are measured: the whole pool, of a larger one a seeded draw."""
AT_ONCE = 8
"""First observations that are asked for at the same time."""
NAMED = 5
"""Tasks that a message names."""

T = TypeVar("T")

Bar = Callable[[str, int, int], None]
"""Shows progress: what, how many done, of how many."""


def check_panels(run: Resolved, builder: Any, bar: Bar) -> None:
    """The prompt must have room for instruction and first observation of every task of every panel.

    Raises:
        ContextTooSmall: names the tasks that do not fit, the tokens needed and the key to raise.
        EnvUnavailable: first observations cannot be had.
    """
    for name, panels in _measurable(run, run.panels):
        for label, panel in panels.items():
            sizes = _sizes(run, name, [Task.parse(item_id) for item_id in panel.item_ids], builder, bar)
            if long := _too_long(run, sizes):
                raise ContextTooSmall(_told(run, f"{name}: panel {label}", long, sizes))


def too_long(run: Resolved, builder: Any, bar: Bar, say: Callable[[str], None]) -> list[str]:
    """Item ids of the training tasks whose instruction and first observation do not fit into the prompt.

    Of a pool of more than :data:`MEASURED` tasks, those that were not measured are found out when they are rolled out.

    Args:
        say: told of each environment that has such tasks.

    Raises:
        ContextTooSmall: no task of an environment fits; see also :func:`check_panels`.
        EnvUnavailable: first observations cannot be had.
    """
    item_ids: list[str] = []
    for name, pool in _measurable(run, run.pools):
        sizes = _sizes(run, name, draw(pool, name, MEASURED, run.config.seed), builder, bar)
        if not (long := _too_long(run, sizes)):
            continue
        line = _told(run, f"{name}: training", long, sizes)
        if len(long) == len(sizes):
            raise ContextTooSmall(line)
        say(f"{line}; they are left out (summary.json names all)")
        item_ids += map(str, long)
    return item_ids


def check_segments(run: Resolved, builder: Any) -> None:
    """A response, the question for notes and the notes must fit into a segment, and the template must fit the rules.

    Raises:
        ContextTooSmall: names the keys.
        ValueError: ``rollout.thinking=strip`` with a template that keeps thinking.
    """
    if run.rules.one_segment:
        return
    conversation = TokenConversation(
        server=None,
        tokenizer=builder.tokenizer,
        builder=builder,
        sampling={},
        prompt_limit=run.config.model.prompt_tokens,
        response_limit=run.config.model.response_tokens,
        settings=run.rules,
    )
    asyncio.run(conversation.start([{"role": "user", "content": "?"}], parse_react))


def _measurable(run: Resolved, by_env: Mapping[str, T]) -> list[tuple[str, T]]:
    """The items of environments whose prompts are known: a harness writes its own."""
    return [(name, items) for name, items in by_env.items() if name not in run.harnesses]


def _sizes(run: Resolved, name: str, tasks: Sequence[Task], builder: Any, bar: Bar) -> dict[Task, int]:
    """Tokens of instruction and first observation by task; a task whose environment fails is left to the rollouts."""
    host, options = run.servers[name], run.options[name]

    async def work(env: TextEnv, job: Job) -> Entry:
        first, _ = await timed(env.reset(job.task), run.rules.step_seconds, f"reset of {job.task}")
        messages = [*start, Prompts(env, run.rules, run.preface(job.task, run.algorithm)).message(first)]
        return Entry(facts={"tokens": len(builder.build_initial_tokens(messages))})

    async def measure() -> list[Entry]:
        try:
            await host.check(name, options)
            return await run_jobs(
                [*map(Job, tasks)], work, host, lambda _: options, concurrency=AT_ONCE, patience=PATIENCE,
                progress=lambda done, total: bar(f"first observations: {name}", done, total),
            )  # fmt: skip
        finally:
            await host.close()

    env = run.envs[name]  # servers may word things in their own way
    start = opening(env.spec, env.style, run.rules.action_format)
    entries = asyncio.run(measure())
    sizes = {task: entry.facts["tokens"] for task, entry in zip(tasks, entries, strict=True) if entry.counts}
    if tasks and not sizes:
        error = next(entry.episode.error for entry in entries if entry.episode)
        raise EnvUnavailable(f"{name}: none of {len(tasks)} tasks can be begun, such as for: {error}")
    return sizes


def _too_long(run: Resolved, sizes: Mapping[Task, int]) -> list[Task]:
    return [task for task, tokens in sizes.items() if tokens > run.config.model.prompt_tokens]


def _told(run: Resolved, what: str, long: Sequence[Task], sizes: Mapping[Task, int]) -> str:
    named = ", ".join(map(str, long[:NAMED])) + (", ..." if len(long) > NAMED else "")
    return (
        f"{what}: instruction and first observation of {len(long)} of {len(sizes)} tasks ({named}) take up to "
        f"{max(sizes.values())} tokens, more than model.prompt_tokens={run.config.model.prompt_tokens}; raise it, or "
        "set rollout.style=compact"
    )
