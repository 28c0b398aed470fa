"""``agentgym-rl sync``."""

from __future__ import annotations

import glob
import netrc
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from agentgym_rl.envs.core import MissingExtra


def command(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders of runs, folders of them, or globs.")],
    project: Annotated[str | None, typer.Option(help="Upload into this project; left out, into the run's own.")] = None,
    entity: Annotated[str | None, typer.Option(help="User or team to upload to; left out, your default one.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be uploaded.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also runs that were uploaded before.")] = False,
) -> None:
    """Upload offline runs to Weights & Biases."""
    from rich.console import Console

    try:
        from agentgym_rl.eval.wandb_file import StoredRun, stored
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"uploading needs the package {error.name!r}; install it with: pip install 'agentgym-rl[train]'"
        ) from error

    console = Console(width=None if sys.stdout.isatty() else 200)
    found = {folder: stored(folder) for folder in folders(runs)}
    chosen = [run for own in found.values() for run in own if run.offline and (again or not run.uploaded)]
    console.print(_listing(found, chosen, project))
    if not chosen:
        console.print("nothing to upload")
        return
    url = server()
    if dry_run:
        console.print(f"would upload {len(chosen)} to {url}", highlight=False)
        return
    check(url)
    upload(chosen, project, entity)
    left: list[StoredRun] = [run for run in chosen if not run.uploaded]
    if left:
        raise ValueError(
            f"{len(left)} of {len(chosen)} are not uploaded: {', '.join(str(run.file.parent) for run in left)}; "
            "wandb says why above; the same command tries them again"
        )


def folders(places: Sequence[str]) -> list[Path]:
    """Folders of runs with W&B's files.

    Raises:
        FileNotFoundError: a place does not exist or holds no such run.
    """
    found: list[Path] = []
    for place in places:
        given = [Path(place)] if Path(place).exists() else [Path(match) for match in sorted(glob.glob(place))]
        own = [folder for one in given for folder in (one, *sorted(one.glob("*"))) if _has_files(folder)]
        if not given:
            raise FileNotFoundError(f"{place} does not exist; it is not the folder of a run, nor a glob of some")
        if not own:
            raise FileNotFoundError(
                f"{place} has no W&B files (wandb/offline-run-*/*.wandb); a run with logger.wandb=disabled keeps none"
            )
        found += own
    return list({folder.resolve(): folder for folder in found}.values())


def server() -> str:
    """Address of the W&B server in use."""
    import wandb

    return os.environ.get("WANDB_BASE_URL") or str(wandb.setup().settings.base_url)


def check(url: str) -> None:
    """Whether W&B can be reached and a key is known.

    Raises:
        ValueError: not; says what to do.
    """
    host = urlsplit(url).hostname or url
    if not (os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE") or _in_netrc(host)):
        raise ValueError(f"there is no key for {url}; set WANDB_API_KEY or run: wandb login")
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError:
        pass  # it answers
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise ValueError(
            f"{url} cannot be reached ({reason}); check the network, or name your server in WANDB_BASE_URL"
        ) from error


def upload(runs: Sequence[Any], project: str | None, entity: str | None) -> None:
    """Let wandb upload files of runs; it marks each that is complete."""
    options = [f"--{name}={value}" for name, value in (("project", project), ("entity", entity)) if value is not None]
    files = [str(run.file) for run in runs]
    beside = {**os.environ, "WANDB_DIR": str(runs[0].file.parents[2])}  # for wandb's own log
    command = [sys.executable, "-m", "wandb", "sync", "--include-synced", *options, *files]
    subprocess.run(command, env=beside, check=False)


def _has_files(folder: Path) -> bool:
    return any(folder.glob("wandb/*run-*/run-*.wandb"))


def _in_netrc(host: str) -> bool:
    places = [os.environ.get("NETRC"), Path.home() / ".netrc", Path.home() / "_netrc"]
    files = [Path(place) for place in places if place is not None and Path(place).is_file()]
    return any(netrc.netrc(file).authenticators(host) is not None for file in files)


def _listing(found: dict[Path, list[Any]], chosen: Sequence[Any], project: str | None) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for head in ("run", "project", "group", "id", "rows", "state"):
        table.add_column(head, justify="right" if head == "rows" else "left")
    for folder, own in found.items():
        for run in own:
            state = "to upload" if run in chosen else "uploaded" if run.uploaded else "was online"
            cells = (str(folder), project or run.project, run.group, run.run_id, str(len(run.history)), state)
            table.add_row(*(Text(cell) for cell in cells))
    return table
