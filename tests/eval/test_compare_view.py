"""A comparison in front of the episodes of its runs, in a real browser."""

import os
import signal
import subprocess
import sys

import pytest
from test_compare_page import comparison
from viewer_episodes import run_folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs beside each other, the first of them with episodes."""
    made = comparison(tmp_path_factory.mktemp("compared") / "runs").runs
    run_folder(made[0].folder)
    return made


def test_a_run_leads_to_its_episodes(runs, browser):
    """As a user has it: the command says where, and Ctrl-C ends it."""
    arguments = ["compare", str(runs[0].folder.parent), "--view", "--no-browser"]
    serving = subprocess.Popen(
        [sys.executable, "-m", "agentgym_rl.cli", *arguments],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        line = next(line for line in serving.stdout if "http://" in line)
        assert line.startswith(f"{len(runs)} runs at ")
        opened = browser.new_page()
        errors = []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.goto(line.split()[3])
        links = opened.locator("#runs a")
        assert links.count() == 1
        links.click()
        opened.wait_for_selector("#list [role=option]")
        assert "18" in opened.inner_text("#total") and errors == []
        opened.close()
        serving.send_signal(signal.SIGINT)
        assert serving.wait(20) == 0
    finally:
        serving.kill()
