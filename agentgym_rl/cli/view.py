"""``agentgym-rl view``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym_rl.cli.common import progress_bar
from agentgym_rl.cli.episodes import Place

if TYPE_CHECKING:
    from agentgym_rl.data.episode_store import EpisodeStore

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")]


def command(
    place: Place,
    port: Port = 0,
    html: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a folder that needs no server instead.")
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Draw the environments in the exported folder, too.")
    ] = True,
    browser: Browser = True,
) -> None:
    """Read the episodes of a run in a browser: filter, step through, compare a task across training."""
    from agentgym_rl.data.episode_store import EpisodeStore

    if html is not None and (port or not browser):
        raise ValueError("--html writes a folder that needs no server; leave --port and --no-browser out")
    store = EpisodeStore(place)
    if html is not None:
        _export(store, html, pictures)
        return

    serve(store, port, browser, f"{len(store.table):,} episodes")


def serve(
    episodes: EpisodeStore | Mapping[str, EpisodeStore], port: int, browser: bool, what: str, front: str | None = None
) -> None:
    """Show episodes until Ctrl-C; see :class:`agentgym_rl.eval.viewer.server.Viewer`.

    Args:
        what: is shown, in words.
    """
    import webbrowser

    from agentgym_rl.eval.viewer.server import Viewer

    try:
        viewer = Viewer(episodes, port, front)
    except OSError as error:
        raise ValueError(f"port {port} cannot be used: {error.strerror}; choose another --port") from error
    typer.echo(f"{what} at {viewer.url} (Ctrl-C ends)")
    if browser:
        webbrowser.open(viewer.url)
    try:
        viewer.serve_forever()
    except KeyboardInterrupt:
        typer.echo("")
    finally:
        viewer.server_close()


def _export(store: EpisodeStore, out: Path, pictures: bool) -> None:
    from agentgym_rl.eval.viewer.export import export

    try:
        with progress_bar(str(out)) as progress:
            page = export(store, out, pictures, progress)
    except KeyboardInterrupt:
        typer.echo(f"Interrupted; {out} is not whole. The same command writes it afresh.", err=True)
        raise typer.Exit(130) from None
    typer.echo(f"{page}: {len(store.table):,} episodes")
