"""A run, read into tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_rl.api.frames import episode_frame, frame
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.envs.tables import json_object, read_jsonl
from agentgym_rl.eval.evaluation.rules import read_config

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class RunData:
    """What a run has written. Tables are read when they are first asked for; they need pandas (extra ``data``)."""

    folder: Path
    config: Mapping[str, Any]
    """The whole configuration."""

    def __repr__(self) -> str:
        return f"<RunData: {self.folder}>"

    @cached_property
    def metrics(self) -> DataFrame:
        """A row for each line of ``metrics.jsonl``: ``step`` and the metrics that were logged then; also of a run that
        is not finished.

        Raises:
            FileNotFoundError: the run has logged nothing yet.
        """
        return frame(read_jsonl(self.folder / "metrics.jsonl", torn_end=True))

    @cached_property
    def summary(self) -> DataFrame:
        """A row for each stage, panel, environment and decoding: success with its 95% interval, n, reward, turns, error
        rate; missing where no episode counts. The stages ``random`` and ``oracle`` are the reference policies.

        Raises:
            FileNotFoundError: the run is not finished.
        """
        file = self.folder / "summary.json"
        if not file.is_file():
            raise FileNotFoundError(f"{file} does not exist: {self.folder} is not finished")
        return frame(_rows(json_object(file)))

    @cached_property
    def episodes(self) -> DataFrame:
        """A row for each stored episode (:class:`agentgym_rl.data.episode_schema.Summary`), by file and row.

        Success and reward are missing where the ending does not count.

        Raises:
            FileNotFoundError: the run has stored none.
        """
        return episode_frame(self._store.table.to_pylist(), self._store.table.column_names)

    def episode(self, row: Mapping[str, Any]) -> Episode:
        """The whole episode of a row of :attr:`episodes`."""
        return self._store.episode(row["file"], int(row["row"]))

    @cached_property
    def _store(self) -> EpisodeStore:
        return EpisodeStore(self.folder / "episodes")


def load(run: str | Path) -> RunData:
    """A run from its folder; it may still be running.

    Raises:
        FileNotFoundError: the folder holds no run.
        ValueError: its configuration cannot be read.
    """
    folder = Path(run)
    return RunData(folder.absolute(), read_config(folder))


def _rows(summary: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    stages = [(stage["name"], stage["panels"]) for stage in summary["stages"]]
    for stage, panels in [*stages, *summary.get("reference", {}).items()]:
        for panel, envs in panels.items():
            for env, by_decoding in envs.items():
                for decoding, score in ({"": by_decoding} if "success" in by_decoding else by_decoding).items():
                    figures = {key: value for key, value in score.items() if key not in ("ci95", "by_task")}
                    low, high = score["ci95"] or (None, None)
                    where = {"stage": stage, "panel": panel, "env": env, "decoding": decoding or None}
                    yield {**where, "success_low": low, "success_high": high, **figures}
