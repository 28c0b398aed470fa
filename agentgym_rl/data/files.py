"""Files written whole, and JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 file so that readers see the old content or the new, never a part of it.

    Missing folders are made. The text goes to a file beside ``path`` that then takes its name.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_jsonl(path: str | Path, rows: Iterable[Any]) -> None:
    """Write one JSON value a line, whole (see :func:`write_text`)."""
    write_text(path, "".join(_line(row) for row in rows))


def append_jsonl(file: IO[str], row: Any) -> None:
    """Add one line to an open journal and push it to the operating system."""
    file.write(_line(row))
    file.flush()


def read_jsonl(path: str | Path, torn_end: bool = False) -> Iterator[Any]:
    """The values of a JSON-lines file.

    Args:
        torn_end: drop a last line without its line end, which a process that died while writing leaves behind.

    Raises:
        ValueError: a line is not JSON; names file and line.
    """
    with Path(path).open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if torn_end and not line.endswith("\n"):
                return
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number}: not JSON ({error.msg})") from error


def _line(row: Any) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
