"""The ``agentgym-rl`` command. One command a module, which imports heavy packages when it runs."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentgym_rl.envs.core import EnvError

COMMANDS = (
    "envs", "tasks", "play", "check", "collect", "expand", "convert", "fetch", "train", "watch", "eval", "export",
    "compare", "sync", "timeline", "episodes", "view", "serve",
)  # fmt: skip
"""Modules of this package, each with a function ``command``, in the order of ``--help``."""


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
for name in COMMANDS:
    app.command(name)(import_module(f"agentgym_rl.cli.{name}").command)


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
