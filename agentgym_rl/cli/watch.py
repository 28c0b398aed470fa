"""``agentgym-rl watch``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from agentgym_rl.cli.common import Json, console, print_json, run_folders
from agentgym_rl.envs.extras import needs


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.", autocompletion=run_folders)],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the present state and exit, as into a pipe.")] = False,
    as_json: Json = False,
) -> None:
    """Show a run while it runs: stage, success by environment, speed, time left, errors. Ctrl-C ends the view only."""
    with needs("watching", "train"):
        from agentgym_rl.engine.run.lock import holder
    from agentgym_rl.eval import watching

    def picture(standing: watching.Standing) -> object:
        process = holder(run)
        return watching.picture(standing, f"run by {process}" if process else "not running; the same command resumes")

    screen, standing = console(), watching.read(run)
    if as_json:
        print_json(standing.to_dict() | {"process": holder(run)})
        return
    if once or not screen.is_terminal:
        screen.print(picture(standing))
        return
    from rich.live import Live

    try:
        with Live(console=screen, auto_refresh=False) as live:
            while True:
                live.update(picture(standing), refresh=True)  # type: ignore[arg-type]
                if standing.finished and holder(run) is None:
                    return
                time.sleep(every)
                standing = watching.read(run)
    except KeyboardInterrupt:
        return
