"""``agentgym-rl timeline``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentgym_rl.cli.common import run_folders


def command(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="Folder of a run, or one of its files of episodes.", autocompletion=run_folders
        ),
    ],
    only: Annotated[str | None, typer.Option(metavar="NAME", help="One file of the run, e.g. step000012.")] = None,
) -> None:
    """Draw where the time of stored episodes went: one lane per episode, as a page and as a trace for Perfetto."""
    from agentgym_rl.data.episode_store import EpisodeStore, read
    from agentgym_rl.eval import timeline

    files = EpisodeStore(place).files
    if only is not None:
        if only not in files:
            raise FileNotFoundError(f"{place} has no episodes {only!r}; it has {', '.join(files)}")
        files = {only: files[only]}
    for name, file in files.items():
        home = file.parent.parent if file.parent.name == "episodes" else file.parent
        page = timeline.write(home, name, read(file))
        typer.echo(f"{page}\n{page.with_suffix('.json')}")
