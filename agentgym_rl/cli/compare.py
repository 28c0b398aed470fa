"""``agentgym-rl compare``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def command(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs that differ in their seed.")],
) -> None:
    """Put runs with different seeds beside each other: mean and each value, and the gain over cloning and control."""
    from rich.console import Console

    from agentgym_rl.eval.compare import across_seeds

    summaries = []
    for run in runs:
        file = run / "summary.json"
        if not file.is_file():
            raise FileNotFoundError(f"{file} does not exist; {run} is not the folder of a finished run")
        summaries.append(json.loads(file.read_text()))
    Console(width=None if sys.stdout.isatty() else 200).print(across_seeds(summaries))
