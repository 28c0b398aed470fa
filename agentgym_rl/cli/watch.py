"""``agentgym-rl watch``."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym_rl.cli.common import Json, console, print_json, run_argument
from agentgym_rl.envs.extras import needs

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from agentgym_rl.eval.watching import Standing


def command(
    run: Annotated[Path, run_argument("RUN", "Folder of a run.")],
    every: Annotated[
        float | None, typer.Option(min=0.1, max=86400, help="Seconds between looks; 2 where left out.")
    ] = None,
    wait: Annotated[
        float | None, typer.Option(min=0, help="Seconds to wait for a run that is not there yet; 30 where left out.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the present state and exit, as into a pipe.")] = False,
    as_json: Json = False,
) -> None:
    """Show a run while it runs: stage, success by environment, speed, time left, errors, and why it learns nothing.

    A run that is starting is waited for. Ctrl-C ends the view only.
    """
    with needs("watching", "train"):
        from agentgym_rl.engine.run.lock import holder
    from agentgym_rl.eval import watching

    if (once or as_json) and (every is not None or wait is not None):
        raise ValueError("--every and --wait are of a view that stays; leave them out with --once and --json")
    screen, process = console(), holder(run)
    if as_json:
        print_json(watching.read(run, process).to_dict() | {"process": process})
    elif once or not screen.is_terminal:
        screen.print(_picture(watching.read(run, process), process))
    else:
        with suppress(KeyboardInterrupt):
            _follow(run, screen, 2.0 if every is None else every, 30.0 if wait is None else wait)


def _picture(standing: Standing, process: str | None) -> RenderableType:
    from agentgym_rl.eval import watching

    return watching.picture(standing, f"run by {process}" if process else "not running; the same command resumes")


def _follow(run: Path, screen: Console, every: float, wait: float) -> None:
    """Draw a run again and again until it is finished; one that is not there yet may take ``wait`` seconds."""
    from rich.live import Live
    from rich.text import Text

    from agentgym_rl.engine.run.lock import holder
    from agentgym_rl.eval import watching

    begun = time.monotonic()
    with Live(console=screen, auto_refresh=False) as live:
        while (waited := time.monotonic() - begun) < wait and not watching.begun(run) and holder(run) is None:
            live.update(Text(f"waiting for a run in {run}: {waited:.0f} of {wait:.0f} s"), refresh=True)
            time.sleep(every)
        while True:
            process = holder(run)
            standing = watching.read(run, process)
            live.update(_picture(standing, process), refresh=True)
            if standing.finished and process is None:
                return
            time.sleep(every)
