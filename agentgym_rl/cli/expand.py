"""``agentgym-rl expand``."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from agentgym_rl.cli import common
from agentgym_rl.envs.progress import progress_bar


def command(
    env: common.EnvName,
    out: Annotated[Path, typer.Option(help="AgentTraj JSON file to write.")],
    model: Annotated[str, typer.Option(help="Rewords: openai:<model>@<url>; the key is read from OPENAI_API_KEY.")],
    split: Annotated[str, typer.Option(help="Split, or file of item ids, to reword.")] = "train",
    n: common.Tasks = None,
    variants: Annotated[int, typer.Option(help="Rewordings of each task.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the draw and of sampling.")] = 0,
    style: common.Style = "agentgym",
    difficulty: common.Difficulty = None,
    temperature: common.Temperature = 1,
    min_counted: Annotated[
        float, typer.Option(help="An error where less than this share of the tasks counts; others failed.")
    ] = 1.0,
    option: common.Options = None,
) -> None:
    """Write demonstrations whose tasks a language model reworded; only those that keep the task are written."""
    from agentgym_rl.rollout.expand import expand
    from agentgym_rl.rollout.policies.api import ChatModel

    options = common.env_options(env, option)
    if "style" in options:
        raise ValueError("--option style has no effect; write --style")
    chat = ChatModel(model, temperature=temperature)
    with common.resumable(out), progress_bar(f"{env} {split}") as progress:
        summary = asyncio.run(
            expand(
                env, split, out, chat, n=n, variants=variants, seed=seed, style=style, difficulty=difficulty or None,
                options=options, min_counted=min_counted, progress=progress,
            )
        )  # fmt: skip
    typer.echo(f"{out}: {summary.kept} of {summary.asked} rewordings kept")
    if summary.failed:
        typer.echo(f"  {summary.failed} tasks failed in the environment or the model's server")
    for reason, number in sorted(summary.rejected.items()):
        typer.echo(f"  {number} not kept: {reason}")
