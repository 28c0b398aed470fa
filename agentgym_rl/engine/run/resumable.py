"""Rollouts that a stop does not lose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.algorithms.base import Request, Rollout
from agentgym_rl.engine.run.folder import Interrupted
from agentgym_rl.engine.verl.sampler import Sampler
from agentgym_rl.engine.verl.updates import Progress
from agentgym_rl.rollout.journal import Entry, Journal

CHUNK = 32
"""Episodes written to the journal at once."""


@dataclass(kw_only=True)
class Resumable:
    """The resumable rollouts of a unit, in a journal; a unit that begins again goes on with it."""

    file: Path
    """Of the journal."""
    sampler: Sampler
    rows: Callable[[Sequence[Request], int], list[dict[str, Any]]]
    """Dataset rows of requests, numbered from an index on."""
    say: Callable[[str], None]
    stop: Callable[[], bool]
    """True once the user asked to stop."""
    _journal: Journal | None = None
    _asked: int = 0
    """Episodes that the unit has asked for; their places in the journal."""

    def rollouts(self, requests: Sequence[Request], label: str, progress: Progress) -> list[Rollout]:
        """Roll out what the journal does not have yet, and again what failed outside the agent before a stop.

        Raises:
            Interrupted: the user asked to stop.
        """
        journal = self._journal = self._journal or Journal(self.file)
        journalled = len(journal.entries)
        if journalled and not self._asked:
            self.say(f"{label}: {journalled} episodes are kept from before the stop")
        single = [request for request in requests for _ in range(request.samples)]
        rows = [{**row, "__rollout_n__": 1} for row in self.rows(single, self._asked)]
        self._asked += len(rows)
        done = {
            (key, entry.episode.item_id) for key, entry in journal.entries.items() if entry.episode and entry.counts
        }
        missing = [row for row in rows if (str(row["index"]), row["item_id"]) not in done]

        def shown(done: int, total: int) -> None:
            progress(len(rows) - total + done, len(rows))
            if self.stop():
                raise Interrupted

        def take(rollouts: list[Rollout]) -> None:
            for rollout in rollouts:
                entry = Entry(rollout.episode, rollout.segments)
                journal.add(str(rollout.episode.tags["index"]), entry)

        if missing:
            self.sampler.rollouts(missing, validate=False, progress=shown, take=take, chunk=CHUNK)
        return [_kept(journal, row["index"]) for row in rows]

    def all(self) -> list[Rollout]:
        """All that the journal has."""
        journal = self._journal
        return [] if journal is None else [_kept(journal, index) for index in sorted(map(int, journal.entries))]

    def close(self) -> None:
        """End the unit."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def _kept(journal: Journal, index: int) -> Rollout:
    entry = journal.entries[str(index)]
    assert entry.episode is not None
    return Rollout(episode=entry.episode, segments=entry.examples)
