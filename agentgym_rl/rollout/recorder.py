"""Full episodes go from the process that ran them straight to the episode store.

The text and log-probability of every token are for the viewer only. :meth:`EpisodeRecorder.record` keeps the episode
with them in the process of the agent loop and returns one without them, which the training queue carries. When a step
is over, :func:`store` writes its episodes as shards of one file, ``<name>.<number>.parquet``: each process writes those
that it ran, and the caller those that no process holds (they ended without a turn, or their process is gone).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.episode_schema import Summary
from agentgym_rl.data.files import shards

MAX_KEPT_EPISODES = 20_000
"""Episodes that a process keeps; beyond it the oldest go, which no step has asked for."""

Advantages = Mapping[str, Sequence[float]]
"""``Episode.advantages`` by key; they are known when the process that ran an episode has long written it down."""
WriteShards = Callable[[Path, Advantages], Iterable[Sequence[str]]]
"""Has every process write (:meth:`EpisodeRecorder.write`) and gives the keys that each has written."""


def key_of(episode: Episode) -> str:
    """Identifies an episode among those of a run: two of one task do not begin at the same microsecond."""
    return f"{episode.item_id} {episode.began!r}"


class EpisodeRecorder:
    """The full episodes of one process, until a step asks for them.

    They are kept as the text that the store holds, so that the work is spread over the run and little memory is used.
    """

    def __init__(self, most: int = MAX_KEPT_EPISODES) -> None:
        self.most = most
        self._kept: OrderedDict[str, tuple[Summary, str]] = OrderedDict()

    def record(self, episode: Episode) -> Episode:
        """Keep an episode; returns it without the text and log-probability of single tokens."""
        if not any(turn.pieces for turn in episode.turns):
            return episode
        self._kept[key_of(episode)] = Summary.of(episode), episode_store.to_text(episode)
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)
        return replace(episode, turns=[replace(turn, pieces=[], log_probs=[]) for turn in episode.turns])

    def write(self, path: str | Path, asked: Advantages) -> list[str]:
        """Write those of the episodes that are kept here, as one file, and forget them; returns their keys.

        No file is written where none is kept here.
        """
        episodes = {key: entry for key in asked if (entry := self._kept.get(key)) is not None}
        if episodes:
            episode_store.write_texts(
                path, [(summary, _with_advantages(text, asked[key])) for key, (summary, text) in episodes.items()]
            )
            for key in episodes:
                self._kept.pop(key, None)  # meanwhile newer ones may have taken its place
        return [*episodes]


def _with_advantages(text: str, advantages: Sequence[float]) -> str:
    """The text of an episode with a field more at its end, which replaces the empty one; nothing else is read."""
    return f'{text[:-1]},"advantages":{json.dumps(list(advantages))}}}' if advantages else text


def store(folder: Path, name: str, episodes: Sequence[Episode], write_shards: WriteShards | None = None) -> None:
    """Store the episodes of a step or an evaluation, in place of those that an earlier attempt at it stored.

    Args:
        folder: of episode files.
        name: of the step's files, without shard and ending.
        episodes: all of the step, as the training queue carried them.
        write_shards: given ``<folder>/<name>`` and the episodes' keys; process ``i`` writes
            ``<folder>/<name>.<i>.parquet`` (:func:`shard`), and the caller the number after the last, so that rows
            that are read already stay where they are. None where no process holds any.
    """
    for path in shards(folder / f"{name}.parquet"):
        path.unlink()
    keys = [key_of(episode) for episode in episodes]
    asked = {key: episode.advantages for key, episode in zip(keys, episodes, strict=True)}
    by_process = [] if write_shards is None else [set(keys) for keys in write_shards(folder / name, asked)]
    written = set().union(*by_process)
    rest = [episode for key, episode in zip(keys, episodes, strict=True) if key not in written]
    if rest or not written:
        episode_store.write(shard(folder / name, len(by_process)) if written else folder / f"{name}.parquet", rest)


def shard(path: Path, number: int) -> Path:
    """The file that a process writes."""
    return path.with_name(f"{path.name}.{number}{episode_store.ENDING}")
