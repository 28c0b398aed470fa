"""Signals of the driver while Ray runs in it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("verl")

SCRIPT = """
import os, signal, time
import ray
from agentgym_rl.engine.verl import cluster

heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append("SIGTERM"))
cluster.own_token(os.environ)
cluster._start(60, cluster.LOCAL, num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(4)  # Ray's own handler aborts three seconds after the signal
ray.shutdown()
print(heard)
"""


@pytest.mark.slow
def test_a_signal_while_ray_runs_reaches_nobody_but_the_run():
    process = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=200)
    assert (process.returncode, process.stdout.strip()) == (0, "['SIGTERM']"), process.stderr
    assert "SIGTERM received" not in process.stderr
