"""What several commands share: options, output, and how an interruption ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym_rl.envs.hosts import EnvHost, HostSettings, open_host
from agentgym_rl.envs.own_files import is_file
from agentgym_rl.envs.progress import progress_bar
from agentgym_rl.envs.registry import adopt, available, check_options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def env_names(incomplete: str) -> list[str]:
    """For a shell that completes a word."""
    return [name for name in available() if name.startswith(incomplete)]


def adopted(name: str) -> str:
    return adopt(name) if is_file(name) else name


EnvName = Annotated[
    str,
    typer.Argument(
        help="Name of an environment; `agentgym-rl envs` lists them. Or a file with one: ./house.py:House.",
        autocompletion=env_names,
        callback=adopted,
    ),
]


def run_folders(incomplete: str) -> list[str]:
    """The runs below ``runs/``, for a shell that completes a word."""
    return [folder for path in sorted(Path("runs").glob("*/")) if (folder := str(path)).startswith(incomplete)]


def run_argument(metavar: str, help: str) -> Any:
    """An argument that names runs, which a shell completes."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=run_folders)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Style = Annotated[str, typer.Option(help="Wording: agentgym, compact, or verl_agent where there is one.")]
MaxTurns = Annotated[int | None, typer.Option(help="Turn limit of an episode; the environment's own where left out.")]
Difficulty = Annotated[
    list[str] | None, typer.Option(metavar="GLOB", help="Only tasks of a difficulty like this; may be repeated.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the environment; may be repeated."),
]
Tasks = Annotated[int | None, typer.Option(help="Draw this many tasks; all where left out.")]


def finite(value: Any) -> Any:
    """The number of an option, or its numbers. Raises BadParameter: one is infinite, or none."""
    for number in value if isinstance(value, tuple) else (value,):
        if not isfinite(number):
            raise typer.BadParameter(f"{number} is not finite; give a number")
    return value


Temperature = Annotated[float, typer.Option(min=0, callback=finite, help="Of a model's sampling; 0 is greedy.")]

Host = Annotated[
    str | None,
    typer.Option("--host-kind", metavar="KIND", help="Where the environment runs: local, process, ray or remote."),
]
Address = Annotated[
    str | None, typer.Option(metavar="URL", help="Run on this server; several are separated by commas.")
]
Token = Annotated[str | None, typer.Option(metavar="NAME", help="Environment variable with the server's token.")]


def place(kind: str | None, address: str | None, token_env: str | None) -> EnvHost:
    """The host that the options of a command name.

    Raises:
        ValueError: an option is out of range.
        MissingExtra: the host needs a package that is not installed.
    """
    options = {"kind": kind, "address": address, "token_env": token_env}
    return open_host(HostSettings.of({key: value for key, value in options.items() if value is not None}))


def env_options(env: str, pairs: list[str] | None, style: str | None = None) -> dict[str, Any]:
    """Constructor options of an environment from ``KEY=VALUE`` texts; a value that is JSON is read as such.

    Raises:
        ValueError: a text has no ``=``, an option is given twice, or the environment has no such option.
    """
    options: dict[str, Any] = {} if style is None else {"style": style}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--option {pair!r} is not KEY=VALUE")
        if key in options:
            raise ValueError(f"--option {pair!r}: {key} is given already{'; write --style' * (key == 'style')}")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    check_options(env, options)
    return options


def console(width: int = 200) -> Console:
    """Standard output; ``width`` is that of a pipe or a file."""
    from rich.console import Console

    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else width, emoji=False)


def print_table(screen: Console, table: Table) -> None:
    """Print a table whole: a word that is too wide for its column goes on in the next line, instead of being cut.

    Columns with ``no_wrap`` keep their width as long as others can give way.
    """
    for column in table.columns:
        column.overflow = column.overflow if column.no_wrap else "fold"
    screen.print(table)


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON, dataclasses as objects and paths as texts."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=_plain))


def counts(numbers: Mapping[str, int]) -> str:
    """Numbers by name, such as "2 refused, 1 malformed"."""
    return ", ".join(f"{number} {name}" for name, number in numbers.items())


def say(screen: Console, text: str) -> None:
    """Print a text as it is, on one line however long."""
    screen.print(text, highlight=False, soft_wrap=True, markup=False)


@contextmanager
def phases(title: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for work of several kinds; gives a function of what is done now, how many of it, and of how many."""
    doing = ""
    with progress_bar(title, lambda: f", {doing}") as bar:

        def progress(what: str, done: int, total: int) -> None:
            nonlocal doing
            doing = what
            bar(done, total)

        yield progress


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Ends the command with status 130 on Ctrl-C; its journal stays."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"Interrupted; {out} is not finished. The same command goes on where this one stopped.", err=True)
        raise typer.Exit(130) from None
