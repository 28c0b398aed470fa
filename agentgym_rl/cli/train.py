"""``agentgym-rl train``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentgym_rl.envs.core import MissingExtra


def command(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            help="Hydra overrides: experiment=NAME, algorithm=grpo, seed=1, bc.epochs=5, verl.KEY=VALUE, ..."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the composed configuration and exit.")] = False,
) -> None:
    """Train a model in text environments. The same command resumes an interrupted run.

    Recipes are groups of settings under recipes/: experiment, env, model, algorithm, engine, curriculum, mixture,
    logger. Every key can be overridden; an unknown key or a wrong type is an error before anything starts.
    """
    from rich.console import Console

    try:
        from agentgym_rl.engine.recipes import experiments, load, to_yaml
        from agentgym_rl.engine.run_folder import Interrupted
        from agentgym_rl.engine.train import train
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"training needs the package {error.name!r}; install it with: pip install 'agentgym-rl[cpu]' (or [gpu])"
        ) from error

    if not overrides:
        typer.echo(f"Name a recipe: agentgym-rl train experiment=NAME; there are: {', '.join(experiments())}")
        raise typer.Exit(2)
    config = load(overrides)
    if show:
        typer.echo(to_yaml(config))
        return
    # bound to the terminal, whatever standard output is redirected to later
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 130)
    try:
        folder = train(config, console)
    except (Interrupted, KeyboardInterrupt) as error:
        saved = "saved" if isinstance(error, Interrupted) else "stopped at once; the last checkpoint stands"
        console.print(f"{saved}; the same command resumes: agentgym-rl train {' '.join(overrides)}", highlight=False)
        raise typer.Exit(130) from None
    except RuntimeError as error:
        if os.environ.get("AGENTGYM_RL_DEBUG") == "1":
            raise
        console.print(f"[red]Error:[/red] {error}", highlight=False, soft_wrap=True)
        console.print(f"details: {config.run.dir}/engine.log and Ray's logs; AGENTGYM_RL_DEBUG=1 shows them here")
        raise typer.Exit(1) from error
    report(folder, console)


def report(folder: Path, console: object) -> None:
    """Table, curve and where everything is."""
    from rich.console import Console

    from agentgym_rl.engine.metrics_log import read
    from agentgym_rl.eval.curves import draw
    from agentgym_rl.eval.table import results

    assert isinstance(console, Console)
    summary = json.loads((folder / "summary.json").read_text())
    picture = draw(summary, read(folder), folder / "curves.png", f"{summary['name']}, seed {summary['seed']}")
    console.print(results(summary))
    for what, file in (
        ("curve", picture), ("summary", folder / "summary.json"), ("metrics", folder / "metrics.jsonl"),
        ("episodes", folder / "episodes"), ("checkpoints", folder / "checkpoints"), ("W&B", folder / "wandb"),
    ):  # fmt: skip
        console.print(f"{what:12s}{file}", highlight=False, soft_wrap=True)
