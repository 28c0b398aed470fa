"""The manifest of a checkpoint: which files it has, and how to see that one of them is damaged."""

from __future__ import annotations

import json
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agentgym_rl.data.files import write_text
from agentgym_rl.envs.tables import json_object

NAME = "manifest.json"
"""Written last: a checkpoint that has one is whole. ``{"files": {<path>: [<bytes>, <CRC-32>]}}``."""
CHUNK = 1 << 24
"""Bytes read at once."""


def seal(folder: Path) -> None:
    """Write the manifest of a folder, of every file that it has now.

    Every file is read once, several at a time. A CRC finds what disks and copies do to a file, not what somebody does
    on purpose.
    """
    names = [str(file.relative_to(folder)) for file in _files(folder)]
    with _threads() as pool:
        facts = dict(zip(names, pool.map(lambda name: _facts(folder / name), names), strict=True))
    write_text(folder / NAME, json.dumps({"files": facts}, indent=1) + "\n")


def sealed(folder: Path) -> bool:
    """True if a folder has a manifest; checkpoints of earlier versions have none."""
    return (folder / NAME).is_file()


def fault(folder: Path) -> str | None:
    """The damage of a checkpoint: missing, cut or changed files, or its manifest; None where it is as it was sealed."""
    try:
        known = json_object(folder / NAME)["files"]
    except (KeyError, ValueError) as error:
        return f"its manifest cannot be read: {error}"
    for name, (size, _) in known.items():
        file = folder / name
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != size:
            return f"{name} has {file.stat().st_size} bytes, not {size}"
    with _threads() as pool:
        present = pool.map(lambda name: _facts(folder / name), known)
        changed = [name for (name, facts), now in zip(known.items(), present, strict=True) if facts != now]
    return f"the content of {changed[0]} has changed" if changed else None


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.name != NAME)


def _facts(file: Path) -> list[int]:
    """Size and CRC-32."""
    size = crc = 0
    with file.open("rb") as content:
        while chunk := content.read(CHUNK):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    return [size, crc]


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(8, os.cpu_count() or 1), "checkpoint")
