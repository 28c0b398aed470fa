"""``agentgym-rl view``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from agentgym_rl.cli.common import run_argument
from agentgym_rl.data.files import write_text
from agentgym_rl.envs.progress import progress_bar

if TYPE_CHECKING:
    from agentgym_rl.data.episode_store import EpisodeStore

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")]


def command(
    places: Annotated[
        list[str],
        run_argument(
            "RUN|FILE...",
            "Folder of a run, of episode files, or such a file; or several runs, as folders of runs or globs.",
        ),
    ],
    port: Port = 0,
    html: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a folder that needs no server instead.")
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Draw the environments in the exported folder, too.")
    ] = True,
    browser: Browser = True,
) -> None:
    """See how runs train, and read their episodes, in a browser.

    Of several runs the first page lists them all, with their metrics over each other.
    """
    from agentgym_rl.data.episode_store import EpisodeStore

    if html is not None and (port or not browser):
        raise ValueError("--html writes a folder that needs no server; leave --port and --no-browser out")
    if html is None and not pictures:
        raise ValueError("--no-pictures is of an exported folder; add --html FOLDER")
    runs = _several(places)
    if isinstance(runs, list):
        if html is None:
            _serve_runs(places, port, browser, f"{len(runs)} runs")
        else:
            _export_runs(runs, html, pictures)
        return
    store = EpisodeStore(runs)
    if html is not None:
        _export(store, html, pictures)
        return

    serve(store, port, browser, f"{len(store.table):,} episodes")


def _several(places: Sequence[str]) -> list[Path] | Path:
    """The runs that places mean, or the one place with episodes of its own.

    Raises:
        FileNotFoundError: one of several places does not exist, or there is no run in them.
    """
    from agentgym_rl.eval.comparison.runs import folders_of

    places_found = [folders_of(place) for place in places]
    runs = list({path.resolve(): path for _, inside in places_found for path in inside}.values())
    folders = [folder for roots, _ in places_found for folder in roots]
    if len(folders) == 1 and (runs == folders or not runs):
        return folders[0]
    if not runs:
        raise FileNotFoundError(f"{', '.join(places)}: there is no run; several places are shown if they are runs")
    return runs


def _serve_runs(places: Sequence[str], port: int, browser: bool, what: str) -> None:
    """Show several runs; one that has come since, or has its first episodes, is there when the page is loaded again."""
    from agentgym_rl.eval.training.page import page

    addresses: dict[Path, str] = {}
    episodes: dict[str, EpisodeStore] = {}
    lock = Lock()

    def front() -> str:
        found = _several(places)
        runs = found if isinstance(found, list) else [found]
        with lock:
            for run, store in stores_of([run for run in runs if run not in addresses]).items():
                name = f"run{len(episodes)}"
                addresses[run], episodes[name] = f"{name}/", store
            return page(runs, addresses)

    front()
    serve(episodes, port, browser, what, front)


def _export_runs(runs: Sequence[Path], html: Path, pictures: bool) -> None:
    from agentgym_rl.eval.training.page import page

    stores = stores_of(runs)
    names = [run.resolve().name for run in stores]
    addresses = {
        run: f"{name if names.count(name) == 1 else f'{number:03d}-{name}'}/index.html"
        for number, (run, name) in enumerate(zip(stores, names, strict=True))
    }
    links = {}
    for run, store in stores.items():
        with _named():
            _export(store, (html / addresses[run]).parent, pictures)
            links[run] = quote(addresses[run])
    write_text(html / "index.html", page(runs, links))
    typer.echo(f"{html / 'index.html'}: {len(runs)} runs")


def stores_of(runs: Sequence[Path]) -> dict[Path, EpisodeStore]:
    """The episodes of each run that has some which can be read."""
    from agentgym_rl.data.episode_store import EpisodeStore
    from agentgym_rl.eval.viewer import notes

    stores = {}
    for run in runs:
        with suppress(FileNotFoundError), _named():  # a run may have just begun, or been kept without its episodes
            notes.read(run)
            stores[run] = EpisodeStore(run)
    return stores


@contextmanager
def _named() -> Iterator[None]:
    """What is wrong with one of several runs is said, and the others are shown all the same."""
    try:
        yield
    except ValueError as error:
        typer.echo(f"shown without its episodes: {error}", err=True)


def serve(
    episodes: EpisodeStore | Mapping[str, EpisodeStore],
    port: int,
    browser: bool,
    what: str,
    front: Callable[[], str] | None = None,
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
