"""``agentgym-rl reproduce``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym_rl.cli import common

if TYPE_CHECKING:
    from rich.table import Table

    from agentgym_rl.api.reproduction import Line, Reproduced


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A published result; --list shows them.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="seed=0,1,2, or settings other than theirs.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the published results, and exit.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the commands that it would run, and exit.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Of evaluations and result.json; else reproductions/NAME.")
    ] = None,
    as_json: common.Json = False,
) -> None:
    """Train and evaluate as published, and print the published number beside ours.

    The same command goes on where it was stopped. What it ran, cost and found is in result.json.
    """
    from agentgym_rl.api.reproduction import Reproduction

    if as_json and (listed or show):
        raise ValueError("--json prints the result; leave it out with --list and --show")
    screen = common.console()
    if listed:
        common.print_table(screen, _all())
        return
    if name is None:
        raise ValueError("name a published result; agentgym-rl reproduce --list shows all")
    reproduction = Reproduction.of(name, overrides or (), out)
    if show:
        for words in reproduction.commands:
            typer.echo(shlex.join(["agentgym-rl", *words]))
        return
    reproduction.check()
    try:
        with common.resumable(reproduction.out):
            done = reproduction.run(quiet=as_json)
    except RuntimeError as error:  # of a command whose output is above
        common.say(screen, f"stopped: {error}; the same command goes on")
        raise typer.Exit(1) from None
    if as_json:
        common.print_json(done)
        return
    common.print_table(screen, _table(done))
    for line in _afterword(done, reproduction.out):
        common.say(screen, line)


def _all() -> Table:
    from rich.table import Table

    from agentgym_rl.api.published import TARGETS

    table = Table(title="Published results, in %", title_justify="left")
    for head in ("name", "published", "seeds", "source"):
        table.add_column(head, no_wrap=head == "name")
    for name, target in TARGETS.items():
        values = ", ".join(f"{env} {value:g}" for env, value in target.arm.values.items())
        table.add_row(name, values, target.protocol.seeds, target.arm.source)
    return table


def _table(done: Reproduced) -> Table:
    from rich.table import Table

    heads = ("environment", "weights", "measure", "published", "ours", "95% over", "difference", "panel")
    table = Table(*heads, title=f"{done.name}, in %", title_justify="left")
    for line in done.lines:
        ours = f"{line.ours:.1f} [{line.interval[0]:.1f}, {line.interval[1]:.1f}]"
        panel = done.panels[line.env]
        what = (line.env, line.weights, line.measure, f"{line.published:g}")
        table.add_row(*what, ours, line.over, _difference(line), panel)
    return table


def _difference(line: Line) -> str:
    mean, low, high = (f"{value:+.1f}" for value in line.difference)
    return f"{mean} [{low}, {high}]"


def _afterword(done: Reproduced, out: Path) -> list[str]:
    from agentgym_rl.api.reproduction import NAME

    cost, seeds = done.cost, ", ".join(map(str, done.runs))
    hours = f"{cost.gpu_hours:.1f} GPU hours" if cost.gpu_hours else f"{cost.cpu_hours:.2f} CPU hours"
    lines = [
        f"published: {done.source}, {done.published_seeds}; ours: seeds {seeds}",
        f"cost: {hours}, {cost.episodes:,} episodes, {cost.tokens:,} tokens",
        f"commit: {', '.join(done.commits) or 'none'}; code {', '.join(done.code) or 'unknown'}",
        "what differs from theirs in any case: docs/reproduce.md",
        f"result: {out / NAME}",
    ]
    return ([f"not the published settings: {' '.join(done.changed)}"] if done.changed else []) + lines
