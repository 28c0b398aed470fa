"""The ``agentgym-rl`` command. One command a module, which imports heavy packages when it runs."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentgym_rl.cli import (
    check,
    collect,
    compare,
    convert,
    envs,
    episodes,
    expand,
    export,
    play,
    serve,
    sync,
    tasks,
    timeline,
    train,
    view,
)
from agentgym_rl.cli import eval as evaluation
from agentgym_rl.envs.core import EnvError


class Commands(TyperGroup):
    """Turns an error that the user can fix into one red line and exit status 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (EnvError, ValueError, FileNotFoundError, PermissionError) as error:
            if os.environ.get("AGENTGYM_RL_DEBUG") == "1":
                raise
            typer.secho(f"Error: {error}", fg="red", err=True)
            raise typer.Exit(2) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train language-model agents in text environments.",
)
app.command("envs")(envs.command)
app.command("tasks")(tasks.command)
app.command("play")(play.command)
app.command("check")(check.command)
app.command("collect")(collect.command)
app.command("expand")(expand.command)
app.command("convert")(convert.command)
app.command("train")(train.command)
app.command("eval")(evaluation.command)
app.command("export")(export.command)
app.command("compare")(compare.command)
app.command("sync")(sync.command)
app.command("timeline")(timeline.command)
app.command("episodes")(episodes.command)
app.command("view")(view.command)
app.command("serve")(serve.command)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("agentgym-rl"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the console script."""
    app(prog_name="agentgym-rl")
