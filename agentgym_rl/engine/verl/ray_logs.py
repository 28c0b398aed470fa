"""The last words of a process that died, from Ray's logs on this machine."""

from __future__ import annotations

import re
from pathlib import Path

ERROR = re.compile(r"^\(\w+ pid=\d+\).*?\b((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S.*)", re.MULTILINE)
"""An error, in a line that begins as those of processes that vLLM has started."""
FOLLOWS = "initialization failed"
"""Words of errors that only follow from another process's."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ELSEWHERE = "root cause"
"""In what vLLM's server says when a process that it started has failed, of which it knows nothing more."""
TAIL = 1 << 20
"""Bytes at the end of a log that are read."""


def folder() -> Path | None:
    """Where the Ray of this process has its logs; None where it runs on other machines only."""
    from ray._private import worker

    node = worker._global_node
    return None if node is None else Path(node.get_logs_dir_path())


def cause(logs: Path) -> tuple[str, Path] | None:
    """The last error that a process of vLLM gave as its own, and the file that has it; None where there is none."""
    for path in sorted(logs.glob("worker-*"), key=lambda path: path.stat().st_mtime, reverse=True):
        text = COLOUR.sub("", path.read_bytes()[-TAIL:].decode(errors="replace"))
        if errors := [match[1].strip() for match in ERROR.finditer(text) if FOLLOWS not in match[1]]:
            return errors[-1], path
    return None
