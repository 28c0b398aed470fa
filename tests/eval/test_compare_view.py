"""A comparison in front of the episodes of its runs, in a real browser."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from test_compare_page import comparison
from viewer_episodes import run_folder

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; it comes with the extra dev")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")


def test_a_run_leads_to_its_episodes(tmp_path):
    """As a user has it: the command says where, and Ctrl-C ends it."""
    runs = comparison(tmp_path / "runs").runs
    run_folder(runs[0].folder)
    arguments = ["compare", str(tmp_path / "runs"), "--view", "--no-browser"]
    serving = subprocess.Popen(
        [sys.executable, "-m", "agentgym_rl.cli", *arguments],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        said = next(line for line in serving.stdout if "http://" in line)
        assert said.startswith(f"{len(runs)} runs at ")
        with sync_api.sync_playwright() as started:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            opened = browser.new_page()
            errors = []
            opened.on("pageerror", lambda error: errors.append(str(error)))
            opened.goto(said.split()[3])
            links = opened.locator("#runs a")
            assert links.count() == 1
            links.click()
            opened.wait_for_selector("#list [role=option]")
            assert "18" in opened.inner_text("#total") and errors == []
            browser.close()
        serving.send_signal(signal.SIGINT)
        assert serving.wait(20) == 0
    finally:
        serving.kill()
