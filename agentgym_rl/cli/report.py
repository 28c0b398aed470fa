"""What a finished run shows."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from agentgym_rl.engine.run.metrics_log import read
from agentgym_rl.eval.report import draw
from agentgym_rl.eval.table import results


def picture(folder: Path) -> Path:
    """Draw the curves of a run into its folder."""
    summary = json.loads((folder / "summary.json").read_text())
    return draw(summary, read(folder), folder / "curves.png", f"{summary['name']}, seed {summary['seed']}")


def report(folder: Path, console: Console) -> None:
    """Table, curve and where everything is."""
    drawn = picture(folder)
    console.print(results(json.loads((folder / "summary.json").read_text())))
    for what, file in (
        ("curve", drawn), ("summary", folder / "summary.json"), ("metrics", folder / "metrics.jsonl"),
        ("episodes", folder / "episodes"), ("checkpoints", folder / "checkpoints"), ("W&B", folder / "wandb"),
    ):  # fmt: skip
        console.print(f"{what:12s}{file}", highlight=False, soft_wrap=True)
