"""Episodes that have finished, kept on disk so that interrupted work goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode import Episode, shallow
from agentgym_rl.data.files import alone, append_jsonl, read_jsonl
from agentgym_rl.rollout.supervised import Example

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept of a finished piece of work."""

    episode: Episode | None = None
    examples: Sequence[Example] = ()
    """Tokens of the episode, one example a segment, where they are trained on."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Anything else, in plain JSON types."""

    @property
    def counts(self) -> bool:
        """Whether the work is done: its episode, where it has one, counts."""
        return self.episode is None or self.episode.ending.counts

    def to_dict(self) -> dict[str, Any]:
        return {
            "episode": None if self.episode is None else self.episode.to_dict(),
            **({"examples": [shallow(example) for example in self.examples]} if self.examples else {}),
            **({"facts": dict(self.facts)} if self.facts else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Entry:
        """The inverse of :meth:`to_dict`."""
        return cls(
            None if data["episode"] is None else Episode.from_dict(data["episode"]),
            tuple(Example(**example) for example in data.get("examples", ())),
            data.get("facts", {}),
        )


class Journal:
    """A JSON-lines file of entries by key, appended as they finish. A kill loses at most the last line.

    As a context manager it closes the file, and keeps it; :meth:`delete` ends it.

    Args:
        path: of the file, which is made where there is none.
        settings: identify the work, in the first line of the file; None where the name of the file does.

    Raises:
        ValueError: the file belongs to other settings, or is damaged.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.entries: dict[str, Entry] = {}
        head = None if settings is None else json.loads(json.dumps({**settings, "journal": FORMAT}))
        rows = _whole_rows(path) if path.exists() else []
        if rows and head is not None:
            self._check(head, rows.pop(0))
        for number, row in enumerate(rows, start=1):
            try:
                self.entries[str(row["key"])] = Entry.from_dict(row)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise ValueError(
                    f"{path}, entry {number} is not that of a journal ({type(error).__name__}: {error}); delete this "
                    "line, and its episode runs again"
                ) from error
        self._file = path.open("a", encoding="utf-8", newline="\n")
        if head is not None and not self._file.tell():
            append_jsonl(self._file, head)

    @classmethod
    @contextmanager
    def beside(cls, out: Path, settings: Mapping[str, Any]) -> Iterator[Journal]:
        """The journal of a file that appears when all work is done: ``<out>.partial.jsonl``. Write the file inside.

        Raises:
            ValueError: another process, or call, writes ``out``; see also :class:`Journal`.
        """
        with alone(out.parent, out.name), cls(beside(out), settings) as journal:
            yield journal

    def add(self, key: str, entry: Entry) -> None:
        """Keep one more."""
        self.entries[key] = entry
        append_jsonl(self._file, {"key": key, **entry.to_dict()})

    def close(self) -> None:
        """Close the file, and keep it."""
        self._file.close()

    def delete(self) -> None:
        """Delete the file: the work is written elsewhere."""
        self._file.close()
        self.path.unlink()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, head: Mapping[str, Any], first_row: Mapping[str, Any]) -> None:
        if first_row != head:
            if not isinstance(first_row, dict) or first_row.get("journal") != FORMAT:
                raise ValueError(f"{self.path} was left by another version; delete it, or choose another file")
            changed = [key for key in head if key not in first_row or first_row[key] != head[key]]
            raise ValueError(
                f"{self.path} holds an interrupted command with another {' and '.join(changed)}; "
                "repeat its command to finish it, delete it, or choose another file"
            )


def beside(out: Path) -> Path:
    """Where the journal of a file is."""
    return out.with_name(f"{out.name}.partial.jsonl")


def _whole_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, from which a torn last line is cut off."""
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
    try:
        return [*read_jsonl(path)]
    except ValueError as error:
        raise ValueError(f"{error}; delete this line, and its episode runs again") from error
