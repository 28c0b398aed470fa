"""Rollouts of a resumable unit, kept as they finish."""

from __future__ import annotations

from pathlib import Path

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.data.episode import Episode, shallow
from agentgym_rl.data.files import append_jsonl, read_jsonl, write_jsonl
from agentgym_rl.rollout.supervised import Example


class Journal:
    """A file of finished rollouts by the index in their episodes' tags; it outlives a kill."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = list(read_jsonl(path, torn_end=True)) if path.is_file() else []
        write_jsonl(path, lines)
        self.rollouts: dict[int, Rollout] = {}
        for line in lines:
            segments = [Example(**segment) for segment in line["segments"]]
            self._keep(Rollout(episode=Episode.from_dict(line["episode"]), segments=segments))
        self._file = path.open("a", encoding="utf-8", newline="\n")

    def add(self, rollout: Rollout) -> None:
        """Keep one more."""
        segments = [shallow(segment) for segment in rollout.segments]
        append_jsonl(self._file, {"episode": rollout.episode.to_dict(), "segments": segments})
        self._keep(rollout)

    def close(self) -> None:
        self._file.close()

    def _keep(self, rollout: Rollout) -> None:
        self.rollouts[int(rollout.episode.tags["index"])] = rollout
