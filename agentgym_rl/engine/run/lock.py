"""One process at a time in a run folder."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from getpass import getuser
from pathlib import Path

import psutil

from agentgym_rl.engine.run.folder import RunFolderError, writable

NAME = ".lock"
"""File in the run folder: who runs it. The operating system frees the lock when the process ends, whatever ends it."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Inside, no other process can enter the same folder.

    A lock that a process of this host left behind is taken over. One of another host is not: whether its process still
    runs cannot be seen from here, and not every shared file system frees its locks.

    Raises:
        RunFolderError: the folder cannot be written, or another process runs in it, or may do so; says which one.
    """
    file = writable(folder) / NAME
    with file.open("a+", encoding="utf-8") as handle:
        handle.seek(0)
        before = handle.read()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunFolderError(f"{folder} is run already, by {_told(before)}; choose another run.dir") from error
        if before and json.loads(before)["host"] != socket.gethostname():
            raise RunFolderError(
                f"{folder} was run by {_told(before)}, and that process has not ended as it should; "
                f"if it is gone, delete {file}"
            )
        started = datetime.now().isoformat(timespec="seconds")
        own = {"owner": getuser(), "host": socket.gethostname(), "pid": os.getpid(), "started": started}
        handle.truncate(0)
        handle.write(json.dumps(own))
        handle.flush()
        try:
            yield
        finally:
            handle.truncate(0)


def _told(content: str) -> str:
    """Who holds a lock."""
    if not content:
        return "a process that has just started"
    one = json.loads(content)
    return f"{one['owner']} on {one['host']}, process {one['pid']}, since {one['started']}"


def holder(folder: Path) -> str | None:
    """Who runs in a folder, as its lock tells; None where nobody does, or the process of this host is gone."""
    file = folder / NAME
    content = file.read_text(encoding="utf-8") if file.is_file() else ""
    if not content:
        return None
    one = json.loads(content)
    gone = one["host"] == socket.gethostname() and not psutil.pid_exists(one["pid"])
    return None if gone else _told(content)
