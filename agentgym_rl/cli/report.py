"""What a finished run shows."""

from pathlib import Path

from rich.console import Console

from agentgym_rl.cli.common import say
from agentgym_rl.envs.tables import json_object
from agentgym_rl.eval.report import draw, results
from agentgym_rl.eval.units import finite
from agentgym_rl.eval.watching import read_rows


def picture(folder: Path) -> Path:
    """Draw the curves of a run into its folder."""
    summary = json_object(folder / "summary.json")
    rows = [*map(finite, read_rows(folder, torn_end=False))]
    return draw(summary, rows, folder / "curves.png", f"{summary['name']}, seed {summary['seed']}")


def report(folder: Path, console: Console) -> None:
    """Table, curve and where everything is."""
    drawn = picture(folder)
    console.print(results(json_object(folder / "summary.json")))
    for what, file in (
        ("curve", drawn), ("summary", folder / "summary.json"), ("metrics", folder / "metrics.jsonl"),
        ("episodes", folder / "episodes"), ("checkpoints", folder / "checkpoints"), ("W&B", folder / "wandb"),
    ):  # fmt: skip
        say(console, f"{what:12s}{file}")
