"""``agentgym-rl train -m``: the jobs of a sweep one after the other, then their comparison."""

import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from ray.exceptions import RayError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym_rl.cli.common import print_table, say
from agentgym_rl.cli.report import picture
from agentgym_rl.engine.run.folder import Interrupted
from agentgym_rl.engine.run.session import Session
from agentgym_rl.engine.run.sweep import Job, by_engine, jobs
from agentgym_rl.engine.run.train import train
from agentgym_rl.envs.core import EnvError
from agentgym_rl.eval.comparison.compare import compare
from agentgym_rl.eval.comparison.forms import Screen
from agentgym_rl.eval.comparison.runs import read
from agentgym_rl.eval.comparison.tables import remarks, tables

FAILURES = (EnvError, RuntimeError, ValueError, OSError, RayError)
"""What ends a job and spares the others; anything else is a mistake in the program."""


def run_all(overrides: Sequence[str], console: Console, show: bool) -> int:
    """Run the jobs of a sweep; returns the exit status: 0, 1 where a job failed, 130 after Ctrl-C.

    Args:
        show: list the jobs only.

    Raises:
        RecipeError, RunFolderError: a job is wrong; nothing has been started.
    """
    listed = by_engine(jobs(overrides, show=show))
    print_table(console, _listing(listed))
    for number, job in enumerate(listed, start=1):
        for remark in job.remarks:
            say(console, f"job {number}: {remark}")
    if show:
        return 0
    again = f"agentgym-rl train -m {shlex.join(overrides)}"
    finished: list[Path] = []
    failed: list[tuple[int, Job, str]] = []
    unfinished = sum(job.standing != "finished" for job in listed)
    with Session(several=unfinished > 1) as session:
        for number, job in enumerate(listed, start=1):
            title = f"job {number}/{len(listed)}: {job.label}"
            if job.standing == "finished":
                say(console, f"{title}: finished before, {job.folder}")
                finished.append(job.folder)
                continue
            say(console, title)
            begun = time.monotonic()
            try:
                finished.append(run_job(job, console, session))
            except (Interrupted, KeyboardInterrupt) as error:
                saved = "saved" if isinstance(error, Interrupted) else "stopped at once; the last checkpoint stands"
                say(console, f"{saved} in job {number} of {len(listed)}; the same command resumes: {again}")
                return 130
            except FAILURES as error:
                if os.environ.get("AGENTGYM_RL_DEBUG") == "1":
                    raise
                session.close()  # what is left of the engine may not be trusted
                failed.append((number, job, f"{type(error).__name__}: {error}"))
                say(console, f"{title}: failed, {type(error).__name__}: {error}")
                continue
            say(console, f"{title}: finished in {(time.monotonic() - begun) / 60:.1f} min, {job.folder}")
    _compare(finished, console)
    for number, job, why in failed:
        say(console, f"job {number} failed ({job.label}): {why}; see {job.folder}/engine.log")
    if failed:
        say(console, f"{len(failed)} of {len(listed)} jobs failed; the same command runs them again: {again}")
    return 1 if failed else 0


def run_job(job: Job, console: Console, session: Session) -> Path:
    """One run with its picture; returns its folder."""
    folder = train(job.resolved(), console, session)
    picture(folder)
    return folder


def _listing(listed: Sequence[Job]) -> Table:
    table = Table(title=f"{len(listed)} jobs", title_justify="left")
    table.add_column("job", justify="right")
    for head in ("overrides", "folder", "state"):
        table.add_column(head)
    for number, job in enumerate(listed, start=1):
        table.add_row(str(number), Text(job.label), Text(str(job.folder)), job.standing)
    return table


def _compare(finished: Sequence[Path], console: Console) -> None:
    if not finished:
        return
    try:
        compared = compare([read(folder) for folder in finished])
    except ValueError as error:
        say(console, f"not compared: {error}")
        return
    for table in tables(compared):
        console.print(Screen(table))
    for remark in remarks(compared):
        say(console, remark)
    folders = shlex.join(map(str, finished))
    say(console, f"curves and differences of the settings: agentgym-rl compare {folders} --html compare.html")
