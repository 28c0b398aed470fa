"""``agentgym-rl sync``."""

from __future__ import annotations

import asyncio
import netrc
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from agentgym_rl.cli.common import console, print_table, run_argument
from agentgym_rl.envs.core import EnvError
from agentgym_rl.envs.extras import needs

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Start:
    """A start of a run that W&B has files of: ``wandb/[offline-]run-<time>-<id>`` in the run's folder."""

    run: Path
    folder: Path

    @property
    def time_and_id(self) -> tuple[str, str]:
        time, _, run_id = self.folder.name.removeprefix("offline-").removeprefix("run-").partition("-")
        return time, run_id

    @property
    def offline(self) -> bool:
        """Whether it was logged without a connection."""
        return self.folder.name.startswith("offline-run-")

    @property
    def marks(self) -> list[Path]:
        """Files by which ``wandb sync`` marks it as complete."""
        return list(self.folder.glob("run-*.wandb.synced"))

    @property
    def uploaded(self) -> bool:
        """Whether it has such a mark."""
        return bool(self.marks)


def command(
    runs: Annotated[list[str], run_argument("RUN...", "Folders of runs, folders of them, or globs.")],
    project: Annotated[str | None, typer.Option(help="Upload into this project; left out, into the run's own.")] = None,
    entity: Annotated[str | None, typer.Option(help="User or team to upload to; left out, your default one.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be uploaded.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also runs that were uploaded before.")] = False,
) -> None:
    """Upload offline runs to Weights & Biases."""
    screen = console()
    known = [start for folder in folders(runs) for start in starts(folder)]
    chosen = [start for start in known if start.offline and (again or not start.uploaded)]
    print_table(screen, _listing(known, chosen))
    if not chosen:
        screen.print("nothing to upload")
        return
    url = server()
    if dry_run:
        into = f", into project {project}" if project else ""
        screen.print(f"would upload {len(chosen)} to {url}{into}", highlight=False)
        return
    check(url)
    upload(chosen, project, entity)
    incomplete = [start for start in chosen if not start.uploaded]
    if incomplete:
        raise ValueError(
            f"{len(incomplete)} of {len(chosen)} are not uploaded: "
            f"{', '.join(str(start.folder) for start in incomplete)}; "
            "wandb says why above; the same command tries them again"
        )


def folders(places: Sequence[str]) -> list[Path]:
    """Folders of runs with W&B's files. Raises FileNotFoundError: a place does not exist or holds no such run."""
    from agentgym_rl.eval.comparison.runs import folders_of

    runs: list[Path] = []
    for place in places:
        roots, _ = folders_of(place)
        runs_inside = [folder for root in roots for folder in (root, *sorted(root.glob("*"))) if starts(folder)]
        if not runs_inside:
            raise FileNotFoundError(
                f"{place} has no W&B files (wandb/offline-run-*/*.wandb); a run with logger.wandb=disabled keeps none"
            )
        runs += runs_inside
    return list({folder.resolve(): folder for folder in runs}.values())


def starts(run: Path) -> list[Start]:
    """The starts of a run, oldest first; a resumed run has several."""
    files = run.glob("wandb/*run-*-*/run-*.wandb")
    return sorted((Start(run, file.parent) for file in files), key=lambda start: start.time_and_id)


def server() -> str:
    """Address of the W&B server in use. Raises MissingExtra: wandb is not installed."""
    with needs("uploading", "train"):
        import wandb
    return os.environ.get("WANDB_BASE_URL") or str(wandb.setup().settings.base_url)


def check(url: str) -> None:
    """Whether W&B can be reached and a key is known.

    Raises:
        ValueError: it cannot, or there is no key; the message says what to do.
    """
    host = urlsplit(url).hostname or url
    if not (os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE") or _in_netrc(host)):
        raise ValueError(f"there is no key for {url}; set WANDB_API_KEY or run: wandb login")
    try:
        asyncio.run(_ask(url))
    except EnvError as error:
        raise ValueError(
            f"{url} cannot be reached ({error}); check the network, or name your server in WANDB_BASE_URL"
        ) from error


async def _ask(url: str) -> None:
    with needs("uploading", "train"):
        from agentgym_rl.envs import http
    async with http.session(proxies=True) as session:
        await http.request(session, "GET", url, 10.0)


def upload(chosen: Sequence[Start], project: str | None, entity: str | None) -> None:
    """Let ``wandb sync`` upload starts of runs; it marks each that is complete then, whatever it was before."""
    for mark in [mark for start in chosen for mark in start.marks]:
        mark.unlink()
    options = [f"--{name}={value}" for name, value in (("project", project), ("entity", entity)) if value is not None]
    environment = {**os.environ, "WANDB_DIR": str(chosen[0].run)}  # for wandb's own log
    command = [sys.executable, "-m", "wandb", "sync", "--include-synced", *options]
    subprocess.run([*command, *(str(start.folder) for start in chosen)], env=environment, check=False)


def _in_netrc(host: str) -> bool:
    """Whether a netrc file has a key for a host. Raises ValueError: one cannot be read."""
    places = [os.environ.get("NETRC"), Path.home() / ".netrc", Path.home() / "_netrc"]
    files = [Path(place) for place in places if place is not None and Path(place).is_file()]
    try:
        return any(netrc.netrc(file).authenticators(host) is not None for file in files)
    except netrc.NetrcParseError as error:
        raise ValueError(
            f"{error.filename}, line {error.lineno}: {error.msg}; mend it, or set WANDB_API_KEY"
        ) from error


def _listing(all_starts: Sequence[Start], chosen: Sequence[Start]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("run", "id", "started", "state")
    for start in all_starts:
        state = "to upload" if start in chosen else "uploaded" if start.uploaded else "was online"
        time, run_id = start.time_and_id
        table.add_row(*(Text(cell) for cell in (str(start.run), run_id, time, state)))
    return table
