"""A program with limits on time and memory, of which nothing is left when it has ended. POSIX only."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentgym_rl.envs.core import in_thread

log = logging.getLogger(__name__)

MARK = "AGENTGYM_SESSION"
"""The environment variable by which processes of a session are found, wherever they went."""
OWNER = "AGENTGYM_OWNER"
"""The environment variable by which the processes of all harnesses of one process are found when it has died."""
GRACE_S = 5.0
"""Seconds that a program has to end by itself when its session is over."""
ROUNDS = 100
"""How often at most what a program has left is looked for and ended; a program may start others meanwhile."""
TOLD = 2000
"""Characters of its output that an error repeats."""
_LIMITED = 'ulimit -c 0; if [ -n "$0" ]; then ulimit -d "$0" || exit 126; fi; exec "$@"'
_AFTER_DEATH = """trap "" INT TERM HUP; read -r _
for round in 1 2 3 4 5; do
  for each in /proc/[0-9]*; do grep -qsFxz "$0" "$each/environ" && kill -9 "${each#/proc/}"; done
done"""
"""Ends what has ``$0`` in its environment when nobody can write to its input any more."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a program ended."""

    status: int
    """Its exit status; the signal's number, negative, where one ended it."""
    late: bool = False
    """Whether it was ended here, as its time was up."""
    output: str = ""
    """The end of what it printed."""


async def run(
    words: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    seconds: float,
    memory_mb: int | None = None,
    over: asyncio.Event | None = None,
) -> Exit:
    """Run a program to its end, and end all that it started.

    Args:
        folder: where it runs; its output goes to a file beside it.
        env: its whole environment, with :data:`MARK` in it.
        over: when set, the program has :data:`GRACE_S` seconds left.

    Raises:
        OSError: it cannot be started.
    """
    printed = folder.with_name(f"{folder.name}.log")
    limit = "" if memory_mb is None else str(memory_mb << 10)
    with printed.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", _LIMITED, limit, *words, cwd=folder, env={**env, OWNER: _watched(os.getpid())[1]},
            start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    late = False
    try:
        late = await _wait(process, seconds, over)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await _end(env[MARK])
    return Exit(process.returncode or 0, late, _tail(printed))


@cache
def _watched(pid: int) -> tuple[subprocess.Popen[bytes], str]:
    """A shell that ends what this process has started when it is killed, and the mark by which it finds that."""
    mark = f"{pid}-{secrets.token_hex(8)}"
    clean = {name: value for name, value in os.environ.items() if name != OWNER}
    shell = subprocess.Popen(
        ["/bin/sh", "-c", _AFTER_DEATH, f"{OWNER}={mark}"], env=clean, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return shell, mark


async def _wait(process: asyncio.subprocess.Process, seconds: float, over: asyncio.Event | None) -> bool:
    """Wait for the end of a process, its session, or its time; whether it still ran when its time was up."""
    exited = asyncio.ensure_future(process.wait())
    closed = asyncio.ensure_future((over or asyncio.Event()).wait())
    try:
        await asyncio.wait({exited, closed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if closed.done():
            await asyncio.wait({exited}, timeout=GRACE_S)
        return not closed.done() and not exited.done()
    finally:
        for waiting in (exited, closed):
            waiting.cancel()
        await asyncio.gather(exited, closed, return_exceptions=True)


async def _end(mark: str) -> None:
    """End the processes that a program has left, also those that left its process group (Linux)."""
    for _ in range(ROUNDS):
        pids = await in_thread(marked, mark)
        if not pids:
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.02)
    log.warning("processes of session %s do not end: %s", mark, pids)


def marked(mark: str) -> list[int]:
    """The running processes whose environment has the mark; none where there is no ``/proc``."""
    variable, running = f"{MARK}={mark}".encode(), []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if variable in place.joinpath("environ").read_bytes().split(b"\0"):
                running.append(int(place.name))
    return running


def _tail(printed: Path) -> str:
    with printed.open("rb") as output:
        output.seek(max(0, printed.stat().st_size - 4 * TOLD))
        return output.read().decode("utf-8", "replace")[-TOLD:].strip()
