"""``agentgym-rl serve``."""

import asyncio
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from agentgym_rl.cli import common
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.numbering import Panel
from agentgym_rl.envs.tables import read_utf8


class Protocol(StrEnum):
    """What a server speaks."""

    agentgym = "agentgym"
    openenv = "openenv"
    mcp = "mcp"


OVER_HTTP = ("host", "port", "workers", "session_ttl", "max_sessions", "body_limit", "token_file", "token_env")
"""Options that do nothing for ``--protocol mcp``."""


def command(
    context: typer.Context,
    envs: Annotated[list[str], typer.Argument(metavar="ENV...", help="Names of the environments to serve.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option(help="Processes behind the port.")] = 1,
    session_ttl: Annotated[float, typer.Option(help="Seconds until an unused session closes.")] = 1800,
    max_sessions: Annotated[int, typer.Option(help="Open sessions, over all workers.")] = 4096,
    body_limit: Annotated[int, typer.Option(help="Most bytes of a request's body.")] = 1 << 20,
    token_file: Annotated[Path | None, typer.Option(help="File with the token that requests must carry.")] = None,
    token_env: Annotated[str | None, typer.Option(metavar="NAME", help="Environment variable with the token.")] = None,
    protocol: Annotated[
        Protocol, typer.Option(help="agentgym, openenv, or mcp (tools, on standard input and output).")
    ] = Protocol.agentgym,
    html: Annotated[bool, typer.Option("--html", help="Serve webshop as a website, to shop in a browser.")] = False,
    panel: Annotated[
        list[str] | None,
        typer.Option(help="Panel, named as for eval, that OpenEnv's Task API lists as a split; may be repeated."),
    ] = None,
    style: common.Style = "agentgym",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", metavar="KEY=VALUE", help="An option of the environment; ENV.KEY=VALUE with several."
        ),
    ] = None,
) -> None:
    """Serve environments over HTTP, in AgentGym's protocol or OpenEnv's, until Ctrl-C; or one as tools of MCP."""
    if html and (protocol is not Protocol.agentgym or envs != ["webshop"]):
        raise ValueError("--html serves webshop alone, without --protocol")
    if panel and protocol is not Protocol.openenv:
        raise ValueError(f"--panel {panel[0]}: panels are told by OpenEnv's Task API; add --protocol openenv")
    if protocol is Protocol.mcp:
        given = [name for name in OVER_HTTP if _is_given(context, name)]
        if given:
            what = f"--{given[0].replace('_', '-')}"
            raise ValueError(f"{what} is for HTTP; --protocol mcp talks on standard input and output")
        _tools(envs, option or [], style)
        return
    with needs("serve", "serve"):
        from agentgym_rl.envs.protocol.openenv.server import create_openenv_app
        from agentgym_rl.envs.protocol.server import Settings, create_app, serve
        from agentgym_rl.envs.protocol.server.run import is_loopback, listen
    options = _options(envs, option or [], style)
    settings = Settings(
        envs=options,
        panels=_panels(panel, options) if panel else (),
        session_ttl=session_ttl,
        max_sessions=max_sessions,
        body_limit=body_limit,
        token=_token(token_file, token_env),
        workers=workers,
    )
    listening = listen(host, port)
    if settings.token is None and not is_loopback(host):
        typer.secho(f"Warning: anyone who reaches {host} can use this server; set --token-file.", fg="yellow", err=True)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    typer.secho(f"Serving {', '.join(envs)} at {address} (its pages: {address}/docs); Ctrl-C stops.", err=True)
    if html:
        from agentgym_rl.envs.webshop.site import create_site

        serve(settings, listening, create_site)
        return
    serve(settings, listening, create_app if protocol is Protocol.agentgym else create_openenv_app)


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _tools(envs: list[str], options: list[str], style: str) -> None:
    """Serve the tools of one environment on standard input and output.

    Raises:
        ValueError: there are several environments, or one without tools.
    """
    with needs("serve --protocol mcp", "mcp"):
        from agentgym_rl.envs.mcp.server import serve_tools
    if len(envs) > 1:
        raise ValueError(f"--protocol mcp serves one environment, got {', '.join(envs)}")
    asyncio.run(serve_tools(envs[0], _options(envs, options, style)[envs[0]]))


def _panels(names: list[str], options: dict[str, dict[str, Any]]) -> list[Panel]:
    """The panels of these names, each with the options that its environment is served with.

    Raises:
        FileNotFoundError, ValueError: see :func:`agentgym_rl.eval.evaluation.suite.read`.
    """
    from agentgym_rl.eval.evaluation.rules import Rules
    from agentgym_rl.eval.evaluation.suite import read

    return [panel for name in names for panel in read(name, Rules(options=options)).panels]


def _options(envs: list[str], pairs: list[str], style: str) -> dict[str, dict[str, Any]]:
    """Constructor options of each environment.

    Raises:
        ValueError: an environment is named twice, or an option does not name its environment.
    """
    if len(set(envs)) < len(envs):
        raise ValueError(f"an environment is named twice: {', '.join(envs)}")
    if len(envs) == 1:
        return {envs[0]: common.env_options(envs[0], pairs, style)}
    by_env: dict[str, list[str]] = {env: [] for env in envs}
    for pair in pairs:
        env, dot, rest = pair.partition(".")
        if not dot or env not in by_env:
            raise ValueError(f"--option {pair!r} is not ENV.KEY=VALUE with one of {', '.join(envs)}")
        by_env[env].append(rest)
    return {env: common.env_options(env, some, style) for env, some in by_env.items()}


def _token(file: Path | None, variable: str | None) -> str | None:
    """The token. Raises ValueError: both sources are given, or the variable is not set."""
    if file is not None and variable is not None:
        raise ValueError("give --token-file or --token-env, not both")
    if file is not None:
        return read_utf8(file).strip()
    if variable is not None:
        if variable not in os.environ:
            raise ValueError(f"--token-env: the variable {variable} is not set")
        return os.environ[variable].strip()
    return None
