"""What a run wrote down while it trained: its metrics, and the tokens of its training episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.envs.core import MissingExtra
from agentgym_rl.eval.comparison.runs import Run

METRIC = "run/tokens"
"""Prompt and response tokens of training episodes so far."""


@dataclass(frozen=True, slots=True)
class Log:
    """What a run wrote down while it trained."""

    run: Run
    rows: Sequence[Mapping[str, Any]]
    """Its metrics."""
    tokens: Mapping[int, float] | None
    """Tokens of its training episodes so far, by step; None where they are not known."""

    @classmethod
    def of(cls, run: Run) -> Log:
        rows = run.metrics()
        return cls(run, rows, tokens_by_step(run.folder, rows))


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
    trained = [row["step"] for row in units if "curriculum/max_turns" in row]  # steps with training episodes
    stored = _stored(folder) if trained else {}
    spent = {step: stored.get(f"step{step:06d}", 0) for step in trained}
    if not trained or not all(spent.values()):
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
