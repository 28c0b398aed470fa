"""Runs that W&B keeps on this machine, read back from the files it uploads them from.

A ``.wandb`` file is a LevelDB log after a header of seven bytes: blocks of 32 KiB, in them chunks of checksum, length,
kind and data; a record (protobuf) is a whole chunk, or a first, middle ones and a last.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEAD = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
BLOCK = 32768
CHUNK = struct.Struct("<IHB")
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What a file says of its run."""

    file: Path
    run_id: str
    project: str
    group: str
    name: str
    job_type: str
    tags: tuple[str, ...]
    config: dict[str, Any]
    history: tuple[dict[str, Any], ...]
    """Logged metrics, a row a step; ``_step`` is the step, a table is a reference to its file."""

    @property
    def offline(self) -> bool:
        """Whether it was logged without a connection."""
        return self.file.parent.name.startswith("offline-run-")

    @property
    def uploaded(self) -> bool:
        """Whether W&B has uploaded it since."""
        return self.file.with_suffix(".wandb.synced").exists()


class NothingStored(ValueError):
    """The process died before it wrote anything of its run."""


def stored(folder: Path) -> list[StoredRun]:
    """The files under the folder of a run, oldest first; a resumed run has one for each start that wrote anything."""
    found = []
    for file in sorted(folder.glob("wandb/*run-*/run-*.wandb"), key=_started):
        with suppress(NothingStored):
            found.append(read(file))
    return found


def read(file: Path) -> StoredRun:
    """What a file holds.

    Raises:
        ValueError: it is not a W&B file, or is damaged.
        NothingStored: it tells of no run.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    run: Any = None
    history = []
    for data in _records(file):
        record = Record.FromString(data)
        if record.WhichOneof("record_type") == "run":
            run = record.run
        elif record.WhichOneof("record_type") == "history":
            history.append(_values(record.history.item))
    if run is None:
        raise NothingStored(f"{file} tells of no run; it was cut off while it was begun")
    return StoredRun(
        file, run.run_id, run.project, run.run_group, run.display_name, run.job_type, tuple(run.tags),
        _values(run.config.update), tuple(history),
    )  # fmt: skip


def table(run: StoredRun, reference: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table that the history refers to."""
    found = json.loads((run.file.parent / "files" / reference["path"]).read_text(encoding="utf-8"))
    return [dict(zip(found["columns"], row, strict=True)) for row in found["data"]]


def _records(file: Path) -> Iterator[bytes]:
    """Records of a file; one that the process died in is left out."""
    content = file.read_bytes()
    if not content.startswith(HEAD):
        raise ValueError(f"{file} is not a W&B file, or is of a newer version")
    at, parts = len(HEAD), b""
    while at + CHUNK.size <= len(content):
        if BLOCK - at % BLOCK < CHUNK.size:  # no chunk begins in the last bytes of a block
            at += BLOCK - at % BLOCK
            continue
        checksum, length, kind = CHUNK.unpack_from(content, at)
        data = content[at + CHUNK.size : at + CHUNK.size + length]
        if len(data) < length:
            return
        if zlib.crc32(data, zlib.crc32(bytes([kind]))) != checksum:
            raise ValueError(f"{file} is damaged at byte {at}")
        at += CHUNK.size + length
        parts = data if kind in (WHOLE, FIRST) else parts + data
        if kind in (WHOLE, LAST):
            yield parts


def _values(items: Any) -> dict[str, Any]:
    """Keys and JSON values of protobuf items, whose key may be a path of keys."""
    values: dict[str, Any] = {}
    for item in items:
        *path, key = item.nested_key or [item.key]
        place = values
        for part in path:
            place = place.setdefault(part, {})
        place[key] = json.loads(item.value_json)
    return values


def _started(file: Path) -> str:
    """The time in the folder's name: ``[offline-]run-<time>-<id>``."""
    return file.parent.name.removeprefix("offline-").split("-")[1]
