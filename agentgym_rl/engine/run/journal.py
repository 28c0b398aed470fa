"""Episodes of an exploration, kept as they finish."""

from __future__ import annotations

from pathlib import Path

from agentgym_rl.algorithms.search import Played
from agentgym_rl.data.episode import Episode, shallow
from agentgym_rl.data.files import append_jsonl, read_jsonl, write_jsonl
from agentgym_rl.rollout.supervised import Example


class Journal:
    """A file of finished episodes with their tokens, by the index in their tags; outlives a kill."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = list(read_jsonl(path, torn_end=True)) if path.is_file() else []
        write_jsonl(path, rows)
        self.played: dict[int, Played] = {}
        for row in rows:
            samples = [Example(**sample) for sample in row["samples"]]
            self._keep((Episode.from_dict(row["episode"]), samples))
        self._file = path.open("a", encoding="utf-8", newline="\n")

    def add(self, played: Played) -> None:
        """Keep one more."""
        episode, samples = played
        tokens = [shallow(sample) for sample in samples]
        append_jsonl(self._file, {"episode": episode.to_dict(), "samples": tokens})
        self._keep(played)

    def close(self, delete: bool = False) -> None:
        self._file.close()
        if delete:
            self.path.unlink()

    def _keep(self, played: Played) -> None:
        self.played[int(played[0].tags["index"])] = played
