"""Arguments that several commands share."""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any

import typer

from agentgym_rl.envs import env_class
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.hosts import EnvHost, HostSettings, open_host

EnvName = Annotated[str, typer.Argument(help="Name of a world; `agentgym-rl envs` lists them.")]
StyleOption = Annotated[str, typer.Option("--style", help="Wording of the world: agentgym or compact.")]
FormatOption = Annotated[ActionFormat, typer.Option("--action-format", help="How a reply carries its action.")]
MaxTurns = Annotated[
    int | None, typer.Option("--max-turns", help="Turn limit of an episode; the world's own where left out.")
]
Difficulty = Annotated[
    list[str] | None,
    typer.Option("--difficulty", metavar="GLOB", help="Only tasks of a difficulty like this; may be repeated."),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the world; may be repeated."),
]

HostOption = Annotated[
    str | None, typer.Option("--host", metavar="KIND", help="Where the world runs: local, process, ray or remote.")
]
AddressOption = Annotated[
    str | None, typer.Option("--address", metavar="URL", help="Play on this server; several are separated by commas.")
]
TokenOption = Annotated[
    str | None, typer.Option("--token-env", metavar="NAME", help="Environment variable with the server's token.")
]


def place(kind: str | None, address: str | None, token_env: str | None) -> EnvHost:
    """The host that the options of a command name.

    Raises:
        ValueError: an option is out of range.
        MissingExtra: the host needs a package that is not installed.
    """
    given = {"kind": kind, "address": address, "token_env": token_env}
    return open_host(HostSettings.of({key: value for key, value in given.items() if value is not None}))


def world_options(env: str, pairs: list[str] | None, style: str | None = None) -> dict[str, Any]:
    """Constructor options of a world from ``KEY=VALUE`` texts; a value that is JSON is read as such.

    Raises:
        ValueError: a text has no ``=``, or the world has no such option.
    """
    options: dict[str, Any] = {} if style is None else {"style": style}
    parameters = inspect.signature(env_class(env)).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    takes_any = len(known) < len(parameters)
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--option {pair!r} is not KEY=VALUE")
        if key not in known and not takes_any:
            raise ValueError(f"{env} has no option {key!r}; its options: {', '.join(known)}")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    return options
