"""One process at a time in a run folder."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import psutil

from agentgym_rl.engine.run.account import user
from agentgym_rl.engine.run.folder import RunFolderError, writable

NAME = ".lock"
"""File in the run folder: who runs it. The operating system frees the lock when the process ends, whatever ends it."""

RENEWED_SECONDS = 20.0
"""A process in a folder touches its lock this often."""

LEASE_SECONDS = 180.0
"""A lock of another host that was not touched for so long is taken over."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process in a run folder."""

    owner: str = "somebody"
    host: str = "an unknown host"
    pid: int | str = "unknown"
    started: str = "an unknown time"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Inside, no other process can enter the same folder.

    The lock is a lease: its process renews it, and ends without saving if another one has taken it over meanwhile.
    A lock that a process of this host left behind is taken over at once. One of another host, or a file that does not
    say whose it is, is taken over when its lease is over: whether its process still runs cannot be seen from here, and
    not every shared file system frees its locks.

    Raises:
        RunFolderError: the folder cannot be written or locked, or another process runs in it, or may do so; says which.
    """
    import fcntl  # Linux and macOS have it

    file = writable(folder) / NAME
    with file.open("a+", encoding="utf-8", errors="replace") as handle:
        handle.seek(0)
        before, seconds_left = handle.read(), _lease_left(file)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunFolderError(f"{folder} is run already, by {_told(before)}; choose another run.dir") from error
        except OSError as error:
            raise RunFolderError(
                f"{file} cannot be locked: {error.strerror}; choose a run.dir on a file system that can"
            ) from error
        if before and _owner(before).host != socket.gethostname() and seconds_left > 0:
            raise RunFolderError(
                f"{folder} was run by {_told(before)}, and that process has not ended as it should; if it is gone, the "
                f"folder is free in {seconds_left:.0f} s, or when you delete {file}"
            )
        owner = json.dumps(
            asdict(Owner(user(), socket.gethostname(), os.getpid(), f"{datetime.now():%Y-%m-%dT%H:%M:%S}"))
        )
        handle.truncate(0)
        handle.write(owner)
        handle.flush()
        ended = threading.Event()
        threading.Thread(target=_renew, args=(file, owner, ended), daemon=True).start()
        try:
            yield
        finally:
            ended.set()
            if _content(file) == owner:
                handle.truncate(0)


def _renew(file: Path, owner: str, ended: threading.Event) -> None:
    """Touch a lock until ``ended``; end this process when it is another's."""
    while not ended.wait(RENEWED_SECONDS):
        with suppress(OSError):  # storage that cannot be reached for a moment; the lease is longer than that
            if (content := _content(file)) != owner and not ended.is_set():
                print(f"{file} was taken over by {_told(content)}; this process ends", file=sys.stderr, flush=True)
                os._exit(1)
            os.utime(file)


def _lease_left(file: Path) -> float:
    """Seconds until a lock that nobody renews may be taken over."""
    return LEASE_SECONDS - (time.time() - file.stat().st_mtime)


def _content(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _owner(content: str) -> Owner:
    """Who wrote a lock; a file that is damaged does not say."""
    try:
        return Owner(**json.loads(content))
    except (TypeError, ValueError):
        return Owner()


def _told(content: str) -> str:
    """Who holds a lock."""
    if not content:
        return "a process that has just started"
    owner = _owner(content)
    return f"{owner.owner} on {owner.host}, process {owner.pid}, since {owner.started}"


def holder(folder: Path) -> str | None:
    """Who runs in a folder, as its lock tells; None where nobody does.

    Nobody does where the process is of this host and gone, or of another one and no longer renews the lock.
    """
    file = folder / NAME
    if not (content := _content(file)):
        return None
    owner = _owner(content)
    if owner.host == socket.gethostname():
        gone = isinstance(owner.pid, int) and not psutil.pid_exists(owner.pid)
    else:
        gone = _lease_left(file) <= 0
    return None if gone else _told(content)
