"""``agentgym-rl train``."""

import os
import shlex
from typing import Annotated

import typer

from agentgym_rl.cli.common import console, say
from agentgym_rl.envs.extras import needs

GROUPS = ("experiment", "env", "algorithm", "model", "engine", "curriculum", "mixture", "logger")


def _choices(incomplete: str) -> list[str]:
    """Groups of recipes, or what a group can be set to, for a shell that completes a word."""
    group, equals, _ = incomplete.partition("=")
    if not equals:
        return [f"{name}=" for name in GROUPS if name.startswith(incomplete)]
    from agentgym_rl.engine.recipe.compose import options

    words = [f"{group}={name}" for name in options(group)] if group in GROUPS else []
    return [word for word in words if word.startswith(incomplete)]


def command(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            help="Hydra overrides: experiment=NAME, algorithm=grpo (or of a file: ./mine.py:Mine), seed=1, "
            "cloning.epochs=5, verl.KEY=VALUE, ...",
            autocompletion=_choices,
        ),
    ] = None,
    multirun: Annotated[
        bool, typer.Option("--multirun", "-m", help="One run for each combination of comma-separated values.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Print the composed configuration, with -m the list of runs, and exit.")
    ] = False,
    cfg: Annotated[
        str | None, typer.Option("--cfg", "-c", metavar="job", help="As --show; the word of Hydra's own commands.")
    ] = None,
    recipes: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A folder of your own recipes; left out, recipes/ of the current folder."),
    ] = None,
) -> None:
    """Train a model in text environments. The same command resumes an interrupted run.

    Recipes are groups of settings under recipes/: experiment, env, model, algorithm, engine, curriculum, mixture,
    logger. Every key can be overridden; an unknown key or a wrong type is an error before anything starts.

    Several runs, one after the other, with a comparison at the end (values as in Hydra: a,b or range(0,3) or glob(*)):

        agentgym-rl train -m experiment=demo algorithm=agentevol,grpo seed=0,1,2
    """
    from rich.markup import escape

    with needs("recipes", "train"):
        from agentgym_rl.engine.recipe.compose import FOLDERS, load, options, remarks, to_yaml
        from agentgym_rl.engine.recipe.overrides import check_repeated
        from agentgym_rl.engine.recipe.preflight import check_config
        from agentgym_rl.engine.recipe.resolved import Resolved
        from agentgym_rl.engine.verl.mapping import check_verl
    from agentgym_rl.api.training import further

    if cfg is not None:
        if cfg != "job":
            raise ValueError(f"--cfg {cfg} shows Hydra's own settings, of which there are none here; write --cfg job")
        show = True
    if recipes is not None:
        os.environ[FOLDERS] = recipes
    if not overrides:
        typer.echo(f"Name a recipe: agentgym-rl train experiment=NAME; there are: {', '.join(options('experiment'))}")
        raise typer.Exit(2)
    check_repeated(overrides)
    overrides = [*overrides, *further()]
    screen = console(130)  # bound to the terminal, whatever standard output is redirected to later
    if not multirun:
        run = Resolved(load(overrides))
        check_config(run)
        check_verl(run)
        for line in remarks(run.config, overrides):
            typer.echo(line, err=True)
        if show:
            typer.echo(to_yaml(run.config))
            return
    with needs("training", "cpu"):
        from ray.exceptions import RayError

        from agentgym_rl.cli.multirun import run_all
        from agentgym_rl.cli.report import report
        from agentgym_rl.engine.run.folder import Interrupted
        from agentgym_rl.engine.run.stop import ended_as_by_ctrl_c
        from agentgym_rl.engine.run.train import train
        from agentgym_rl.engine.verl.liveness import root

    if multirun:
        with ended_as_by_ctrl_c():
            raise typer.Exit(run_all(overrides, screen, show))
    try:
        with ended_as_by_ctrl_c():
            folder = train(run, screen)
    except (Interrupted, KeyboardInterrupt) as error:
        saved = "saved" if isinstance(error, Interrupted) else "stopped at once; the last checkpoint stands"
        again = f"agentgym-rl train {shlex.join(overrides)}"
        say(screen, f"{saved}; the same command resumes: {again}")
        raise typer.Exit(130) from None
    except (RuntimeError, OSError, RayError) as error:
        mistaken = isinstance(error, (FileNotFoundError, PermissionError))  # in the command, as everywhere else
        if mistaken or os.environ.get("AGENTGYM_RL_DEBUG") == "1":
            raise
        ours = isinstance(error, RuntimeError) and not isinstance(error, RayError)
        what = str(error) if ours else f"{root(error)}; the same command resumes"
        screen.print(f"[red]Error:[/red] {escape(what)}", highlight=False, soft_wrap=True)
        say(screen, f"details: {run.config.run.dir}/engine.log and Ray's logs; AGENTGYM_RL_DEBUG=1 shows them here")
        raise typer.Exit(1) from error
    report(folder, screen)
