"""The ``agentgym-rl`` command. One command a module, which imports heavy packages when it runs."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import cleandoc
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentgym_rl.envs.core import EnvError
from agentgym_rl.envs.tables import load, read_utf8

GROUPS = load(Path(__file__).with_name("commands.toml"), dict[str, dict[str, str]])
"""Modules of this package, each with a function ``command``, by the heading of ``--help``, and an example of each."""


_KEYS = {"train", "eval", "learn", "explore", "reproduce"}
"""Commands that take ``key=value``."""
_MEANT = {"resume": "the command that began a run resumes it", "evaluate": "write eval", "list": "write envs"}
"""Commands that others have, and what does the same here."""


_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Of a wrong option or argument; versions of typer have it in different places."""


class Commands(TyperGroup):
    """Turns an error that the user can fix into one red line and exit status 2."""

    def invoke(self, ctx: Any) -> Any:
        with _errors(ctx):
            return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            return super().parse_args(ctx, args)  # prints the help
        with _errors(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, *words = args
        if name in _MEANT:
            raise ValueError(f"there is no command {name!r}; {_MEANT[name]}")
        if name in _KEYS:
            known = ["--help", *(opt for parameter in self.commands[name].params for opt in parameter.opts)]
            for option in (word.partition("=")[0] for word in words if word.startswith("--")):
                if not any(opt.startswith(option[:5]) for opt in known):
                    raise ValueError(f"{name} has no option {option}; write it as a key: {option.lstrip('-')}=VALUE")
        return super().resolve_command(ctx, args)


@contextmanager
def _errors(ctx: Any) -> Iterator[None]:
    try:
        yield
    except (EnvError, ValueError, OSError, _UsageError) as error:
        if isinstance(error, BrokenPipeError) or os.environ.get("AGENTGYM_RL_DEBUG") == "1":
            raise
        text = _usage(error, ctx) if isinstance(error, _UsageError) else _sentence(error)
        typer.secho(f"Error: {text}", fg="red", err=True)
        raise typer.Exit(2) from error


def _usage(error: Any, ctx: Any) -> str:
    """What is wrong with an option or argument, with its value, which pydantic keeps out of its message."""
    text = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    match = re.search(r"input_value=(.*), input_type", str(error.__cause__))
    value = f", not {match[1]}" if match and match[1] not in text else ""
    command = error.ctx.command_path if error.ctx else f"{ctx.command_path} {ctx.invoked_subcommand or ''}".rstrip()
    return f"{text}{value}; see {command} --help"


def _sentence(error: Exception) -> str:
    """The text of an error; the operating system's own without its number."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error) or type(error).__name__
    where = "" if error.filename is None else f"{error.filename}: "
    reason = "a file, not a folder" if isinstance(error, FileExistsError) else error.strerror
    return where + reason[:1].lower() + reason[1:]


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Train language-model agents in text environments.",
)


def _help(name: str, command: Callable[..., object]) -> str:
    """A command's docstring, or the file ``<name>.txt`` where its help is longer.

    A paragraph becomes one line, which the terminal wraps; after ``\\b``, or indented, it keeps its lines.
    """
    file = Path(__file__).with_name(f"{name}.txt")
    text = read_utf8(file).replace("\\b", "\b") if file.is_file() else cleandoc(command.__doc__ or "")
    paragraphs = text.split("\n\n")
    return "\n\n".join(part if part.startswith(("\b", " ")) else " ".join(part.split()) for part in paragraphs)


for group, commands in GROUPS.items():
    for name, example in commands.items():
        command = import_module(f"agentgym_rl.cli.{name}").command
        app.command(name, help=_help(name, command), rich_help_panel=group, epilog=f"Example: {example}")(command)


def _version(wanted: bool) -> None:
    if wanted:
        from agentgym_rl.data.written_by import package_version

        typer.echo(package_version())
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
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be text, and a model may write anything
    app(prog_name="agentgym-rl")
