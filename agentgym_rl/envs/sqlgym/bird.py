"""BIRD (Li et al. 2023, arXiv:2305.03111) from a folder with the layout of its archives, numbered as in AgentGym.

``train/train.json`` and ``train/train_databases/<db_id>/<db_id>.sqlite``, and the same with ``dev``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym_rl.envs.splits import Splits
from agentgym_rl.envs.sqlgym.question import Question
from agentgym_rl.envs.sqlgym.sandbox import Limits
from agentgym_rl.envs.tables import json_list

RANGES: Mapping[str, range] = {"train": range(0, 9_428), "dev": range(9_428, 10_962)}
"""AgentGym's task indices of each part, in the order of its file."""

LIMITS = Limits(instructions=2_000_000_000, text=1_000_000, rows=100_000, seconds=60)


class Bird:
    """The questions of the parts of BIRD that a folder holds.

    Raises:
        FileNotFoundError: the folder has neither part, or lacks a database.
        ValueError: a file of questions cannot be read; names file, entry (from 0, as BIRD counts) and fault.
    """

    limits = LIMITS

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._entries = {part: _read(self._file(part), part) for part in RANGES if self._file(part).is_file()}
        if not self._entries:
            raise FileNotFoundError(f"{folder} has neither train/train.json nor dev/dev.json; give BIRD's folder")
        for part, entries in self._entries.items():
            for path in sorted({self._database(part, entry["db_id"]) for entry in entries}):
                if not path.is_file():
                    raise FileNotFoundError(f"{self._file(part)} asks about {path.stem}, but there is no {path}")
        ranges = {part: RANGES[part][: len(entries)] for part, entries in self._entries.items()}
        self._parts = Splits(f"sqlgym with the data of {folder}", ranges)

    @property
    def splits(self) -> Mapping[str, range]:
        """``train``, and ``test``, which is BIRD's dev part; a missing part has no tasks."""
        return {name: self._parts.get(part, range(0)) for name, part in (("train", "train"), ("test", "dev"))}

    def question(self, index: int) -> Question:
        _, entry = self._find(index)
        return Question(entry["db_id"], entry["question"], entry["SQL"].strip(), entry.get("evidence") or "")

    def difficulty(self, index: int) -> str:
        """BIRD's own label; its train part has none."""
        return self._find(index)[1].get("difficulty") or "unrated"

    def source(self, index: int) -> Path:
        part, entry = self._find(index)
        return self._database(part, entry["db_id"])

    def _find(self, index: int) -> tuple[str, dict[str, Any]]:
        part, place = self._parts.locate(index)
        return part, self._entries[part][place]

    def _file(self, part: str) -> Path:
        return self._folder / part / f"{part}.json"

    def _database(self, part: str, name: str) -> Path:
        return self._folder / part / f"{part}_databases" / name / f"{name}.sqlite"


def _read(path: Path, part: str) -> list[dict[str, Any]]:
    entries = json_list(path)
    if len(entries) > len(RANGES[part]):
        raise ValueError(f"{path}: has {len(entries)} entries; AgentGym numbers {len(RANGES[part])}")
    for number, entry in enumerate(entries):
        for key in ("db_id", "question", "SQL"):
            if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
                raise ValueError(f"{path}, entry {number}: has no {key!r}")
    return entries
