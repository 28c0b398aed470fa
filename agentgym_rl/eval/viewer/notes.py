"""What a reader notes about episodes, in a file beside the run: ``<run>.notes.json``.

``{"step000012/3": {"note": "...", "tags": ["..."]}}``: by name of the file and row. A run's own folder is left alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from agentgym_rl.data.files import write_text
from agentgym_rl.envs.tables import json_object

LENGTH = 10_000
"""Most characters of a note, and of an episode's tags."""


@dataclass(frozen=True, slots=True)
class Note:
    """Of one episode; an empty one is not kept."""

    note: str = ""
    tags: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, sent: Any) -> Note:
        """A note from what a page sends. Raises ValueError: it is something else, or too long."""
        match sent:
            case {"note": str(note), "tags": list(tags)} if all(isinstance(tag, str) for tag in tags):
                note_read = cls(note.strip(), list(dict.fromkeys(tag.strip() for tag in tags if tag.strip())))
            case _:
                raise ValueError('a note is {"note": a text, "tags": a list of texts}')
        if len(note_read.note) + sum(map(len, note_read.tags)) > LENGTH:
            raise ValueError(f"a note with its tags has at most {LENGTH} characters")
        return note_read


def file_of(place: Path) -> Path:
    """The file with the notes on a run, a folder or a file of episodes."""
    resolved = place.resolve()
    return resolved.with_name(f"{resolved.name}.notes.json")


def read(place: Path) -> dict[str, Any]:
    """All notes by ``<file>/<row>``; empty where there are none. Raises ValueError: the file holds something else."""
    file = file_of(place)
    kept = json_object(file) if file.is_file() else {}
    try:
        return {episode: asdict(Note.read(note)) for episode, note in kept.items()}
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def put(place: Path, file: str, row: int, note: Note) -> None:
    """Replace the note on an episode; the file is written whole, by one viewer after the other."""
    kept = file_of(place)
    with FileLock(kept.with_name(f".{kept.name}.lock")):
        notes = read(place)
        notes.pop(f"{file}/{row}", None)
        if note != Note():
            notes[f"{file}/{row}"] = asdict(note)
        write_text(kept, json.dumps(notes, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
