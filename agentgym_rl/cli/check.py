"""``agentgym-rl check``."""

from __future__ import annotations

import signal
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym_rl.cli import common

if TYPE_CHECKING:
    from agentgym_rl.envs.check import Finding

SHOWN = 5
"""Faults listed a check."""
MARKS = {None: "[yellow]skip[/yellow]", True: "[green]pass[/green]", False: "[red]FAIL[/red]"}
"""By whether a check passed."""


def command(
    env: common.EnvName,
    split: Annotated[str | None, typer.Option(help="Only this split; every split where left out.")] = None,
    n: Annotated[int | None, typer.Option(help="Tasks to try in each split; 20 where left out.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Try every task.")] = False,
    style: common.Style = "agentgym",
    host: common.Host = None,
    address: common.Address = None,
    token_env: common.Token = None,
    option: common.Options = None,
    as_json: common.Json = False,
) -> None:
    """Check that an environment keeps the contract; exit status 1 when it does not."""
    from rich.markup import escape
    from rich.table import Table

    from agentgym_rl.envs.check import check

    if everything and n is not None:
        raise ValueError("--all tries every task; leave --n out")
    handler = signal.signal(signal.SIGINT, _at_once)
    try:
        with common.phases(f"checking {env}") as bar:
            report = check(
                env,
                split,
                None if everything else 20 if n is None else n,
                common.env_options(env, option, style),
                progress=lambda title, share: bar(title, round(100 * share), 100),
                host=common.place(host, address, token_env),
            )
    finally:
        signal.signal(signal.SIGINT, handler)
    if as_json:
        common.print_json(asdict(report) | {"passed": report.passed})
        raise typer.Exit(0 if report.passed else 1)
    table = Table(title=f"{env}: {report.tasks} tasks of {', '.join(report.splits)}, {report.style} style")
    table.add_column("check", no_wrap=True)
    table.add_column("")
    table.add_column("detail")
    for finding in report.findings:
        table.add_row(finding.name, MARKS[finding.passed], escape(_detail(finding)))
    common.print_table(common.console(), table)
    raise typer.Exit(0 if report.passed else 1)


def _at_once(*_: object) -> None:
    """Ends the command. asyncio's handler would wait for a task to pause, which a check of many tasks does late."""
    raise KeyboardInterrupt


def _detail(finding: Finding) -> str:
    if not finding.faults:
        return finding.detail
    more = len(finding.faults) - SHOWN
    return "\n".join(finding.faults[:SHOWN]) + (f"\n... and {more} more" if more > 0 else "")
