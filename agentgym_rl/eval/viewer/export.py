"""The viewer as a folder that needs no server: open ``index.html``.

A page from a file may load scripts and nothing else, so ``data/index.js`` holds the list, ``data/goals.js`` the goals
of its tasks and ``data/<thousand>/<number>.js`` :data:`.assets.CHUNK` episodes each: gzip-compressed JSON as base64,
loaded when one of its episodes is opened.
"""

import gzip
import shutil
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.data.files import write_text
from agentgym_rl.eval import watching
from agentgym_rl.eval.html import style
from agentgym_rl.eval.training.page import page as training_page
from agentgym_rl.eval.viewer.assets import CHUNK, page, script
from agentgym_rl.eval.viewer.detail import detail, encode
from agentgym_rl.eval.viewer.goals import goals
from agentgym_rl.eval.viewer.listing import listing

Progress = Callable[[int, int], None]
"""Called with the number of episodes written and of all episodes."""


def export(store: EpisodeStore, out: Path, pictures: bool = True, progress: Progress | None = None) -> Path:
    """Write the folder.

    Returns:
        Its page, which is written last.

    Args:
        out: a new or empty folder, or an earlier export, which is replaced.
        pictures: draw the environments, too; replaying episodes takes most of the time of an export.

    Raises:
        ValueError: the folder holds something else.
    """
    index = out / "index.html"
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / "viewer.js").is_file())):
        raise ValueError(f"{out} exists and holds no exported viewer; choose a new folder")
    index.unlink(missing_ok=True)
    shutil.rmtree(out / "data", ignore_errors=True)
    write_text(out / "viewer.css", style())
    write_text(out / "viewer.js", script())
    listed = listing(store)
    write_text(out / "data" / "index.js", _packed(listed))
    write_text(out / "data" / "goals.js", _packed(goals(listed["values"]["item_id"], store.place)))
    table = store.table
    for chunk, start in enumerate(range(0, len(table), CHUNK)):
        if progress:
            progress(start, len(table))
        places = table.slice(start, CHUNK).select(["file", "row"]).to_pylist()
        episodes = [store.episode(**place) for place in places]
        file = out / "data" / f"{chunk // 1000:03d}" / f"{chunk:06d}.js"
        write_text(file, _packed([detail(episode, pictures) for episode in episodes]))
    if progress:
        progress(len(table), len(table))
    if watching.begun(store.place):
        write_text(out / "training.html", training_page([store.place], {}, back="index.html"))
    write_text(index, page("files"))
    return index


def _packed(value: Any) -> str:
    return f'agentgym("{b64encode(gzip.compress(encode(value).encode(), 6, mtime=0)).decode()}");\n'
