"""``agentgym-rl collect``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from agentgym_rl.cli.common import Difficulty, EnvName, FormatOption, MaxTurns, Options, StyleOption, world_options
from agentgym_rl.envs.actions import ActionFormat


def command(
    env: EnvName,
    out: Annotated[Path, typer.Option("--out", help="AgentTraj JSON file to write.")],
    policy: Annotated[str, typer.Option("--policy", help="Who plays: oracle or random.")] = "oracle",
    split: Annotated[str, typer.Option("--split", help="Split to play.")] = "train",
    n: Annotated[int | None, typer.Option("--n", help="Draw this many tasks; all where left out.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the draw and of the random policy.")] = 0,
    style: StyleOption = "agentgym",
    max_turns: MaxTurns = None,
    difficulty: Difficulty = None,
    keep: Annotated[str, typer.Option("--keep", help="Which trajectories to write: success or all.")] = "success",
    action_format: FormatOption = ActionFormat.REACT,
    option: Options = None,
) -> None:
    """Play the tasks of a split and write the trajectories. Interrupted, the same command goes on."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from agentgym_rl.data.collect import collect

    options = world_options(env, option)
    arguments: Any = {"policy": policy, "style": style, "keep": keep, "action_format": action_format}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, transient=True, console=Console(stderr=True)) as bar:
            running = bar.add_task(f"{env} {split}")
            summary = asyncio.run(
                collect(
                    env, split, out, n=n, seed=seed, max_turns=max_turns, difficulty=difficulty or None,
                    options=options, **arguments,
                    progress=lambda done, total: bar.update(running, completed=done, total=total),
                )
            )  # fmt: skip
    except KeyboardInterrupt:
        typer.echo(f"Interrupted; {out} is not written. The same command goes on where this one stopped.", err=True)
        raise typer.Exit(130) from None
    typer.echo(
        f"{out}: {summary.kept} trajectories from {summary.attempted} tasks ({summary.succeeded} solved), "
        f"{summary.mean_turns:.1f} turns on average; panel {summary.digest}"
    )
