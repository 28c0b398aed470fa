"""The episode store and the viewer at 100,000 episodes, on this machine.

Made-up episodes (1 to 12 turns, with tokens and log-probabilities) fill a run of a number of steps; a part of them are
different, and their files are copied until there are enough. Printed: seconds to list them (all files, summaries only),
to query them, to open one (median), to index their texts and search them, to have the page's list in a headless
Chromium, to filter there and to open an episode there; the size on disk, and the memory of the server and of the page.

    python benchmarks/viewer.py [--episodes 100000] [--files 200] [--different 10] [--export]
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from options import positive

from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.data.episode_store import EpisodeStore, write
from agentgym_rl.eval.search import Index
from agentgym_rl.eval.viewer.export import export
from agentgym_rl.eval.viewer.server import Viewer

WORDS = (
    "the",
    "agent",
    "looks",
    "around",
    "takes",
    "a",
    "red",
    "key",
    "from",
    "under",
    "some",
    "oak",
    "planks",
    "door",
)
ENDINGS = (Ending.TERMINATED, Ending.TURN_LIMIT, Ending.INVALID_LIMIT, Ending.CONTEXT_LIMIT)


def episode(rng: random.Random, step: int) -> Episode:
    """Made up, of an environment that is not drawn."""
    turns, at = [], 0
    messages = [{"role": "system", "content": "Answer with a thought and an action. " * 6}]
    messages.append({"role": "user", "content": " ".join(rng.choices(WORDS, k=60))})
    for _ in range(rng.randint(1, 12)):
        words = rng.choices(WORDS, k=rng.randint(8, 24))
        pieces = ["Thought:", *(f" {word}" for word in words), "\n\nAction:", " go", " on", "<|im_end|>"]
        text, seen = "".join(pieces[:-1]), " ".join(rng.choices(WORDS, k=20))
        log_probs = [round(-rng.expovariate(2), 4) for _ in pieces]
        turns.append(
            Turn(
                response=text, action="go on", observation=seen, reward=0.0, invalid=rng.random() < 0.1,
                tokens=(at, at + len(pieces)), log_prob=sum(log_probs), pieces=pieces, log_probs=log_probs,
                began_s=len(turns) + 0.1, model_s=rng.random(), env_s=rng.random() / 10,
            )
        )  # fmt: skip
        at += len(pieces) + 20
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": seen}]
    success = rng.random() < step / 20
    return Episode(
        env=rng.choice(["alpha", "beta", "gamma"]), item_id=f"alpha_{rng.randrange(2000)}", success=success,
        ending=rng.choice(ENDINGS), reward=float(success), max_turns=12, model_step=step, messages=messages[:-1],
        turns=turns, prompt_tokens=120, response_tokens=at, began=1.7e9 + step, reset_s=0.1, tags={"split": "train"},
    )  # fmt: skip


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    print(f"{what:<52}{time.perf_counter() - began:9.2f} s", flush=True)


def fill(folder: Path, episodes: int, files: int, different: int) -> None:
    rng = random.Random(0)
    for step in range(files):
        path = folder / "episodes" / f"step{step:06d}.parquet"
        if step < different:
            write(path, [episode(rng, step) for _ in range(episodes // files)])
        else:
            shutil.copy(path.with_name(f"step{step % different:06d}.parquet"), path)


def search(store: EpisodeStore, folder: Path) -> None:
    """The index of what was said, and a search with it."""
    index = Index(store, folder)
    with timed("search: index all texts"):
        index.update()
    print(f"{'search: size of the index':<52}{index.path.stat().st_size / 2**20:9.0f} MiB")
    with timed("search: three words in a row"):
        hits = index.find("under some oak")
    print(f"{'  found':<52}{len(hits):9,}")


def browse(store: EpisodeStore) -> None:
    """What a person at the page waits for."""
    from playwright.sync_api import sync_playwright

    viewer = Viewer(store)
    threading.Thread(target=viewer.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()

        def seen(what: str, act: Callable[[], Any], selector: str) -> None:
            with timed(f"page: {what}"):
                act()
                page.wait_for_selector(selector, timeout=300_000)

        seen("the list is there", lambda: page.goto(viewer.url), ".envs")
        seen("filter by environment", lambda: page.select_option("#f-env", "beta"), "#f-env.set")
        seen("filter by text", lambda: page.fill("#f-task", "alpha_77"), "#f-task.set")
        page.click("#clear")
        seen("failures first", lambda: page.select_option("#f-order", "failures"), ".row .mark.failed")
        seen("most varied tasks", lambda: page.select_option("#f-order", "varied"), ".row")
        page.locator("#list").focus()
        seen("to the end of the list", lambda: page.keyboard.press("End"), ".row:last-child[aria-selected=true]")
        seen("open an episode", lambda: page.keyboard.press("Enter"), ".turn")
        heap = page.evaluate("performance.memory.usedJSHeapSize")
        print(f"{'page: memory of its script':<52}{heap / 2**20:9.0f} MiB")
        browser.close()
    viewer.shutdown()
    viewer.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=positive, default=100_000)
    parser.add_argument("--files", type=positive, default=200)
    parser.add_argument("--different", type=positive, default=10, help="files that are no copies")
    parser.add_argument("--export", action="store_true", help="write the static folder, too")
    arguments = parser.parse_args()
    if arguments.episodes % arguments.files:
        parser.error(f"--episodes {arguments.episodes} cannot be shared out evenly to --files {arguments.files}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        with timed(f"make {arguments.episodes:,} episodes"):
            fill(folder, arguments.episodes, arguments.files, arguments.different)
        size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
        print(f"{'size':<52}{size / 2**20:9.0f} MiB ({size / arguments.episodes:.0f} bytes an episode)")
        with timed("list them all"):
            store = EpisodeStore(folder)
            table = store.table
        with timed("query: one environment, failures, a range of steps"):
            keys = store.query(env="beta", success=False, step=(2, 5))
        print(f"{'  found':<52}{len(keys):9,} of {len(table):,}")
        every, times = store.query(), []
        for key in random.Random(1).sample(every, min(50, len(every))):
            began = time.perf_counter()
            store.open(key)
            times.append(time.perf_counter() - began)
        print(f"{f'open one (median of {len(times)})':<52}{1000 * median(times):9.1f} ms")
        with timed("look for new files"):
            store.refresh()
        search(store, Path(scratch))
        browse(store)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(f"{'memory of this process at its peak':<52}{peak:9.0f} MiB")
        if arguments.export:
            with timed("export"):
                export(store, Path(scratch) / "out")
            size = sum(path.stat().st_size for path in (Path(scratch) / "out").rglob("*.js"))
            print(f"{'size of the export':<52}{size / 2**20:9.0f} MiB")


if __name__ == "__main__":
    main()
