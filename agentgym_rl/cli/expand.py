"""``agentgym-rl expand``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from agentgym_rl.cli.common import Difficulty, EnvName, Options, StyleOption, world_options


def command(
    env: EnvName,
    out: Annotated[Path, typer.Option("--out", help="AgentTraj JSON file to write.")],
    model: Annotated[
        str, typer.Option("--model", help="Who rewords: openai:<model>@<url>; the key is read from OPENAI_API_KEY.")
    ],
    split: Annotated[str, typer.Option("--split", help="Split, or file of item ids, to reword.")] = "train",
    n: Annotated[int | None, typer.Option("--n", help="Draw this many tasks; all where left out.")] = None,
    variants: Annotated[int, typer.Option("--variants", help="Rewordings of each task.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the draw and of sampling.")] = 0,
    style: StyleOption = "agentgym",
    difficulty: Difficulty = None,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Of the model's sampling.")] = 1,
    option: Options = None,
) -> None:
    """Write expert trajectories whose tasks a language model asked for in other words; kept only where they hold."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from agentgym_rl.rollout.expand import expand
    from agentgym_rl.rollout.policies.api import ChatModel

    options = world_options(env, option)
    chat = ChatModel(model, temperature=temperature, turn_tokens=256)
    arguments: Any = {"style": style, "options": options, "difficulty": difficulty or None}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, transient=True, console=Console(stderr=True)) as bar:
            running = bar.add_task(f"{env} {split}")
            summary = asyncio.run(
                expand(
                    env, split, out, chat, n=n, variants=variants, seed=seed, **arguments,
                    progress=lambda done, total: bar.update(running, completed=done, total=total),
                )
            )  # fmt: skip
    except KeyboardInterrupt:
        typer.echo(f"Interrupted; {out} is not written. The same command goes on where this one stopped.", err=True)
        raise typer.Exit(130) from None
    typer.echo(f"{out}: {summary.kept} of {summary.asked} rewordings kept")
    for reason, number in sorted(summary.rejected.items()):
        typer.echo(f"  {number} not kept: {reason}")
