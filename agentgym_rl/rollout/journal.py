"""What is finished on the way to an output file, so that an interrupted command goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from agentgym_rl.data.files import append_jsonl, read_jsonl


class Partial:
    """Rows by key in ``<out>.partial.jsonl``, beside the file that appears when all are there.

    As a context manager it closes the journal; one that holds no row yet is kept, too, for its settings.

    Raises:
        ValueError: the journal belongs to other settings, or ``out`` is a folder.
    """

    def __init__(self, out: Path, settings: Mapping[str, Any]) -> None:
        if out.is_dir():
            raise ValueError(f"{out} is a folder; give the name of a file")
        self.path = out.with_name(out.name + ".partial.jsonl")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.rows: dict[str, dict[str, Any]] = {}
        own = json.loads(json.dumps(settings))
        if self.path.exists():
            head, *rows = [*read_jsonl(self.path, torn_end=True)] or [own]
            if head != own:
                other = [key for key in own if head.get(key) != own[key]]
                raise ValueError(
                    f"{self.path} holds an interrupted command with another {' and '.join(other)}; "
                    "repeat its command to finish it, delete it, or choose another file"
                )
            self.rows = {row["key"]: row for row in rows}
            self._drop_torn_end()
        self._file = self.path.open("a", encoding="utf-8", newline="\n")
        if not self._file.tell():
            append_jsonl(self._file, own)

    def add(self, key: str, row: Mapping[str, Any]) -> None:
        """Keep one more."""
        self.rows[key] = {"key": key, **row}
        append_jsonl(self._file, self.rows[key])

    def finish(self) -> None:
        """Delete the journal: ``out`` is written."""
        self._file.close()
        self.path.unlink()

    def __enter__(self) -> Partial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _drop_torn_end(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with self.path.open("r+b") as file:
                file.truncate(whole)
