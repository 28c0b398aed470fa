"""Tokens that the training episodes of a run have had so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.envs.core import MissingExtra

METRIC = "run/tokens"
"""Prompt and response tokens of training episodes so far."""


def tokens_by_step(folder: Path, rows: Sequence[Mapping[str, Any]]) -> dict[int, float] | None:
    """Tokens so far, by step: as logged, else counted from the stored episodes of each step.

    Args:
        rows: the run's metrics.

    Returns:
        None where they were not logged and cannot be counted: episodes are gone, carry no token counts, or pyarrow is
        not installed.
    """
    units = [row for row in rows if not any(name.startswith("val/") for name in row)]
    if any(METRIC in row for row in units):
        return {row["step"]: row[METRIC] for row in units if METRIC in row}
    played = [row["step"] for row in units if "curriculum/horizon" in row]  # steps that played training episodes
    stored = _stored(folder) if played else {}
    spent = {step: stored.get(f"step{step:06d}", 0) for step in played}
    if not played or not all(spent.values()):
        return None
    steps = [row["step"] for row in units]
    return dict(zip(steps, accumulate(float(spent.get(step, 0)) for step in steps), strict=True))


def _stored(folder: Path) -> dict[str, int]:
    """Tokens of the episodes of each file; empty where there are none."""
    try:
        table = EpisodeStore(folder / "episodes").table
    except (FileNotFoundError, MissingExtra):
        return {}
    sums = table.group_by("file").aggregate([("prompt_tokens", "sum"), ("response_tokens", "sum")])
    return {row["file"]: row["prompt_tokens_sum"] + row["response_tokens_sum"] for row in sums.to_pylist()}
