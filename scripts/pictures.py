"""The viewer's pictures in docs/images, from a run: ``overview.png`` and ``viewer.png``.

    python scripts/pictures.py runs/demo-agentevol-seed0

`make pictures` trains that run first where it is not there. The episode is the first failure in TextCraft.
"""

import argparse
import os
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.envs.browser.chromium import program
from agentgym_rl.eval.viewer.server import Viewer

IMAGES = Path(__file__).parents[1] / "docs/images"
WINDOW = {"width": 1280, "height": 800}
TALL = {"width": 1280, "height": 1120}
"""For several turns of an episode."""
PATIENCE_MS = 300_000
"""The first page reads the whole run, which takes a busy machine minutes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the pictures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["AGENTGYM_RL_CACHE"] = cache
        viewer = Viewer(EpisodeStore(arguments.run))
        threading.Thread(target=viewer.serve_forever, daemon=True).start()
        draw(viewer.url, arguments.out)
        viewer.shutdown()
        viewer.server_close()


def draw(url: str, out: Path) -> None:
    """The first page and an episode, 1.3 pixels for each of the window's."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=["--no-sandbox"])
        context = browser.new_context(viewport=WINDOW, device_scale_factor=1.3, color_scheme="light")
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto(url)
        page.locator(".half .chart").first.wait_for()
        page.screenshot(path=out / "overview.png")
        page.set_viewport_size(TALL)
        page.goto(f"{url}#/list?env=textcraft&result=failed")
        page.locator("#f-env.set").wait_for()
        page.locator(".row").first.click()
        page.locator(".turn").first.wait_for()
        page.screenshot(path=out / "viewer.png")
        browser.close()


if __name__ == "__main__":
    main()
