"""Timelines of a run's episodes: a page to look at, and a trace that https://ui.perfetto.dev opens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import write_text
from agentgym_rl.eval.timeline.lanes import lanes, trace
from agentgym_rl.eval.timeline.page import page


def write(folder: Path, name: str, episodes: Sequence[Episode]) -> Path:
    """Write ``timeline/<name>.json`` and ``timeline/<name>.html`` into the folder of a run; returns the page.

    Raises:
        ValueError: no episode says when it began.
    """
    drawn = lanes(episodes)
    home = folder / "timeline"
    write_text(home / f"{name}.json", json.dumps(trace(drawn), separators=(",", ":")))
    write_text(home / f"{name}.html", page(drawn, name))
    return home / f"{name}.html"
