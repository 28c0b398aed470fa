"""``agentgym-rl collect``."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym_rl.api.policies import check_samples, closing, open_policy
from agentgym_rl.cli import common
from agentgym_rl.cli.policy import Backend, PolicyOption, rules_for
from agentgym_rl.data.episode import Ending
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.progress import progress_bar

if TYPE_CHECKING:
    from agentgym_rl.rollout.policies import Price, Usage


def command(
    env: common.EnvName,
    out: Annotated[Path, typer.Option(help="AgentTraj JSON file to write.")],
    policy: PolicyOption = "oracle",
    split: Annotated[str, typer.Option(help="Split, or file of item ids, to run.")] = "train",
    n: common.Tasks = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw and of sampling.")] = 0,
    style: Annotated[
        str | None,
        typer.Option(
            help="Wording: agentgym, compact, or verl_agent where there is one; left out, a run's own for its weights, "
            "else agentgym."
        ),
    ] = None,
    max_turns: common.MaxTurns = None,
    difficulty: common.Difficulty = None,
    keep: Annotated[str, typer.Option(help="Which trajectories to write: success or all.")] = "success",
    samples: Annotated[int, typer.Option(help="Episodes of each task.")] = 1,
    per_task: Annotated[
        int | None, typer.Option(help="Keep at most this many distinct ones of a task, shortest first.")
    ] = None,
    episodes: Annotated[
        Path | None, typer.Option(metavar="FILE.parquet", help="Write every episode, kept or not, for `view`, too.")
    ] = None,
    min_counted: Annotated[
        float, typer.Option(help="An error where less than this share counts; others failed outside the agent.")
    ] = 1.0,
    concurrency: Annotated[int, typer.Option(help="Episodes that run at the same time.")] = 1,
    temperature: common.Temperature = 0,
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Most tokens of a model's response; 512 where left out.")
    ] = None,
    price: Annotated[
        tuple[float, float],
        typer.Option(callback=common.finite, help="Of a million prompt and completion tokens; gives the cost."),
    ] = (0, 0),
    without: Annotated[
        list[str] | None,
        typer.Option(help="Parameter that an API does not know: seed or max_completion_tokens. May be repeated."),
    ] = None,
    action_format: Annotated[
        ActionFormat | None, typer.Option(help="How a response carries its action; react.")
    ] = None,
    backend: Backend = "auto",
    host: common.Host = None,
    address: common.Address = None,
    token_env: common.Token = None,
    option: common.Options = None,
    as_json: common.Json = False,
) -> None:
    """Run the tasks of a split and write the trajectories. Interrupted, the same command goes on.

    An error, exit status 2, when no trajectory is kept.
    """
    from agentgym_rl.rollout.collect import collect

    check_samples(policy, samples, temperature)
    options = common.env_options(env, option)
    if "style" in options:
        raise ValueError("--option style has no effect; write --style")
    where = common.place(host, address, token_env)
    rules = rules_for(
        policy, style=style, max_turns=max_turns, action_format=action_format, max_new_tokens=max_new_tokens
    )
    chosen = open_policy(
        policy, rules, backend=backend, sequences=max(16, concurrency), temperature=temperature, seed=seed, price=price,
        without=without or (),
    )  # fmt: skip
    usage = chosen.usage
    detail = (lambda: f", {_spent(usage, price)}") if usage else str
    try:
        with common.resumable(out), progress_bar(f"{env} {split}", detail) as progress:
            work = collect(
                env, split, out, chosen, rules.of_env(env), n=n, seed=seed, difficulty=difficulty or None, keep=keep,
                options=options, progress=progress, samples=samples, per_task=per_task,
                min_counted=min_counted, concurrency=concurrency, host=where, episodes=episodes,
            )  # fmt: skip
            summary = asyncio.run(closing(chosen, work))
    finally:
        if usage and not as_json:
            typer.echo(f"{policy}: {usage.calls} calls, {_spent(usage, price)}")
    if as_json:
        common.print_json({"out": out} | asdict(summary) | ({"usage": usage} if usage else {}))
        return
    failed = f", {summary.failed} failed outside the agent" if summary.failed else ""
    typer.echo(
        f"{out}: {summary.kept} trajectories from {summary.attempted} episodes ({summary.succeeded} solved{failed}), "
        f"{summary.mean_turns:.1f} turns on average; panel {summary.digest}"
    )
    if others := {ending: number for ending, number in summary.endings.items() if ending != Ending.TERMINATED}:
        typer.echo(f"  not ended by the environment: {common.counts(others)}")


def _spent(usage: Usage, price: Price) -> str:
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    return f"{tokens}, cost {usage.cost(price):.4f}" if any(price) else tokens
