"""Where the time of a run's episodes went: as a page, and as a trace that https://ui.perfetto.dev opens."""

import json
from collections.abc import Sequence
from pathlib import Path

from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import write_text
from agentgym_rl.eval.timeline.lanes import lanes, trace
from agentgym_rl.eval.timeline.page import page


def write(page_file: Path, name: str, episodes: Sequence[Episode]) -> Path:
    """Write the page, and the trace beside it under the same name with the ending ``.json``; returns the page.

    Args:
        name: of the episodes' file, shown as the title.

    Raises:
        ValueError: no episode has a start time.
    """
    drawn = lanes(episodes)
    write_text(page_file.with_suffix(".json"), json.dumps(trace(drawn), separators=(",", ":")))
    write_text(page_file, page(drawn, name, len(episodes) - len(drawn)))
    return page_file
