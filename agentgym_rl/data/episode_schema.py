"""The columns of a file of episodes: parquet, one row an episode, zstandard-compressed.

=================  =======  =============================================================================
column             type     meaning
=================  =======  =============================================================================
env                string   environment
item_id            string   task, AgentGym's item id
ending             string   value of :class:`agentgym_rl.data.episode.Ending`
success            bool     by the environment's own rule; null where the ending does not count
reward             float64  sum of the turns' rewards, in [0, 1]; null where the ending does not count
turns              int32    turns
prompt_tokens      int32    tokens before the first response; 0 where they are not counted
response_tokens    int32    tokens from the first response on; 0 where they are not counted
seconds            float64  time of model and environment, in seconds
step               int32    global step of the weights that generated it
split              string   tag ``split``, or null
panel              string   tag ``panel``; null for training
decoding           string   tag ``decoding``, or null
seed               int64    seed of the run
max_turns          int32    turn limit
error              string   what the infrastructure or the model's API said when it ended the episode, or null
episode            string   the whole episode: JSON of :meth:`agentgym_rl.data.episode.Episode.to_dict`, ASCII only
=================  =======  =============================================================================

The file's metadata hold :data:`VERSION` under :data:`KEY`, and the package's version under :data:`PACKAGE`. A listing
reads the columns before ``episode``; an episode is read with the others of its row group, which are :data:`GROUP` in
all but the last. Files of another version are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode import Episode

KEY = b"agentgym_rl.episodes"
VERSION = 2
PACKAGE = b"agentgym_rl.version"
"""Key of the version of the package that wrote the file."""
GROUP = 100
"""Episodes of a row group."""


@dataclass(frozen=True, slots=True)
class Summary:
    """An episode in a listing. ``file`` is the name of its file without ending, ``row`` its position there, from 0."""

    env: str
    item_id: str
    ending: str
    success: bool | None
    """None where the ending does not count: the outcome is not the agent's."""
    reward: float | None
    turns: int
    prompt_tokens: int
    response_tokens: int
    seconds: float
    step: int
    split: str | None
    panel: str | None
    decoding: str | None
    seed: int
    max_turns: int
    error: str | None
    file: str = ""
    row: int = 0

    @classmethod
    def of(cls, episode: Episode) -> Summary:
        same = ("env", "item_id", "prompt_tokens", "response_tokens", "seconds", "seed")
        values: dict[str, Any] = {name: getattr(episode, name) for name in (*same, "max_turns", "error")}
        for name in ("split", "panel", "decoding"):
            tag = episode.tags.get(name)
            values[name] = None if tag is None else str(tag)
        counts = episode.ending.counts
        values |= {"success": episode.success if counts else None, "reward": episode.reward if counts else None}
        values |= {"ending": episode.ending.value, "turns": len(episode.turns), "step": episode.model_step}
        return cls(**values)


def holds_episodes(metadata: Mapping[bytes, bytes] | None, path: Path) -> bool:
    """Whether a parquet file holds episodes. Raises ValueError: of another version of the schema."""
    written = (metadata or {}).get(KEY)
    if written is not None and int(written) != VERSION:
        raise ValueError(
            f"{path} holds episodes of schema {int(written)}; this version of agentgym-rl reads schema {VERSION}: "
            "use the one that wrote it"
        )
    return written is not None
