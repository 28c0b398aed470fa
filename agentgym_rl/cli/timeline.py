"""``agentgym-rl timeline``."""

from pathlib import Path
from typing import Annotated

import typer

from agentgym_rl.cli.common import run_argument


def command(
    place: Annotated[Path, run_argument("RUN", "Folder of a run, or one of its files of episodes.")],
    only: Annotated[str | None, typer.Option(metavar="NAME", help="One file of the run, e.g. step000012.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Page to write, of one file of episodes; left out, <RUN>.timeline/<file>.html for each.",
        ),
    ] = None,
) -> None:
    """Draw where the time of stored episodes went: percentiles, concurrency and a lane per episode, and a trace."""
    from agentgym_rl.data.episode_store import EpisodeStore, read
    from agentgym_rl.eval import timeline

    files = EpisodeStore(place).files
    if only is not None:
        if only not in files:
            raise FileNotFoundError(f"{place} has no episodes {only!r}; it has {', '.join(files)}")
        files = {only: files[only]}
    if out is not None and len(files) > 1:
        raise ValueError(f"--out is one page; choose one of {place}'s files with --only: {', '.join(files)}")
    if out is not None and out.suffix != ".html":
        raise ValueError(f"--out {out}: name a file that ends with .html; the trace is written beside it as .json")
    run = place.resolve()
    beside = run.with_name(f"{run.name}.timeline")
    pages = 0
    for name, file in files.items():
        episodes = read(file)
        if len(files) > 1 and not any(episode.began for episode in episodes):
            typer.echo(f"left out: {name}, none of whose {len(episodes)} episodes has a start time")
            continue
        page = timeline.write(out or beside / f"{name}.html", name, episodes)
        pages += 1
        typer.echo(f"{page}\n{page.with_suffix('.json')}")
    if not pages:
        raise ValueError(f"{place}: no episode has a start time, so that there is nothing to draw")
