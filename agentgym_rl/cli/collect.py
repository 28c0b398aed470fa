"""``agentgym-rl collect``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym_rl.cli.common import (
    AddressOption,
    Difficulty,
    EnvName,
    FormatOption,
    HostOption,
    MaxTurns,
    Options,
    StyleOption,
    TokenOption,
    place,
    world_options,
)
from agentgym_rl.envs.actions import ActionFormat

if TYPE_CHECKING:
    from agentgym_rl.rollout.policies.base import Player, Usage
    from agentgym_rl.rollout.settings import RolloutSettings


def command(
    env: EnvName,
    out: Annotated[Path, typer.Option("--out", help="AgentTraj JSON file to write.")],
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            help="Who plays: oracle, random, a Hugging Face model (folder or id), or openai:<model>@<url>; the key of "
            "an API is read from OPENAI_API_KEY.",
        ),
    ] = "oracle",
    split: Annotated[str, typer.Option("--split", help="Split, or file of item ids, to play.")] = "train",
    n: Annotated[int | None, typer.Option("--n", help="Draw this many tasks; all where left out.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the draw and of sampling.")] = 0,
    style: StyleOption = "agentgym",
    max_turns: MaxTurns = None,
    difficulty: Difficulty = None,
    keep: Annotated[str, typer.Option("--keep", help="Which trajectories to write: success or all.")] = "success",
    samples: Annotated[int, typer.Option("--samples", help="Episodes of each task.")] = 1,
    per_task: Annotated[
        int | None, typer.Option("--per-task", help="Keep at most this many distinct ones of a task, shortest first.")
    ] = None,
    episodes: Annotated[
        Path | None,
        typer.Option("--episodes", metavar="FILE.parquet", help="Write every episode, kept or not, for `view`, too."),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", help="Episodes played at the same time.")] = 1,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Of a model's sampling; 0 is greedy.")] = 1,
    turn_tokens: Annotated[int, typer.Option("--turn-tokens", help="Most tokens of a model's reply.")] = 512,
    price: Annotated[
        tuple[float, float],
        typer.Option("--price", help="Of a million prompt and completion tokens, to tell the cost."),
    ] = (0, 0),
    action_format: FormatOption = ActionFormat.REACT,
    host: HostOption = None,
    address: AddressOption = None,
    token_env: TokenOption = None,
    option: Options = None,
) -> None:
    """Play the tasks of a split and write the trajectories. Interrupted, the same command goes on."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from agentgym_rl.rollout.collect import collect
    from agentgym_rl.rollout.settings import RolloutSettings

    options = world_options(env, option)
    rules: Any = {"style": style, "action_format": action_format, "max_turns": max_turns}
    player = _player(policy, RolloutSettings(**rules, turn_tokens=turn_tokens), temperature, seed)
    arguments: Any = {**rules, "policy": player or policy, "keep": keep, "samples": samples, "per_task": per_task}
    arguments |= {"place": place(host, address, token_env), "episodes": episodes}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    usage = player.usage if player else None
    try:
        with Progress(*columns, transient=True, console=Console(stderr=True)) as bar:
            running = bar.add_task(f"{env} {split}")

            def report(done: int, total: int) -> None:
                spent = "" if usage is None else f", {_spent(usage, price)}"
                bar.update(running, completed=done, total=total, description=f"{env} {split}{spent}")

            summary = asyncio.run(
                collect(
                    env, split, out, n=n, seed=seed, difficulty=difficulty or None, options=options,
                    concurrency=concurrency, progress=report, **arguments,
                )
            )  # fmt: skip
    except KeyboardInterrupt:
        typer.echo(f"Interrupted; {out} is not written. The same command goes on where this one stopped.", err=True)
        raise typer.Exit(130) from None
    typer.echo(
        f"{out}: {summary.kept} trajectories from {summary.attempted} episodes ({summary.succeeded} solved), "
        f"{summary.mean_turns:.1f} turns on average; panel {summary.digest}"
    )
    if usage is not None:
        typer.echo(f"{policy}: {usage.calls} calls, {_spent(usage, price)}")


def _player(policy: str, settings: RolloutSettings, temperature: float, seed: int) -> Player | None:
    """Who plays where it is a model.

    Raises:
        ValueError: it is nobody known.
    """
    if policy in ("oracle", "random"):
        return None
    if policy.startswith("openai:"):
        from agentgym_rl.rollout.policies.api import ChatModel, api

        model = ChatModel(policy, temperature=temperature, turn_tokens=settings.turn_tokens)
        return api(model, settings, seed)
    if "/" not in policy:
        raise ValueError(
            f"policy {policy!r} is unknown; choose oracle, random, a model's folder or hub id (with a '/' in it), or "
            "openai:<model>@<url>"
        )
    from agentgym_rl.rollout.policies.model import LocalModel, local

    return local(LocalModel(policy, temperature=temperature, seed=seed), settings)


def _spent(usage: Usage, price: tuple[float, float]) -> str:
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    cost = (usage.prompt_tokens * price[0] + usage.completion_tokens * price[1]) / 1e6
    return f"{tokens}, cost {cost:.2f}" if any(price) else tokens
