"""The light package where Python has no modules of Unix: each command runs, or says in a line what it cannot do."""

import subprocess
import sys

import pytest
from sweep import thinned

WINDOWS = """
import os, signal, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "uvloop", "ray", "verl", "vllm", "psutil"):
    sys.modules[name] = None
for name in ("sched_getaffinity", "geteuid", "getuid", "fork", "register_at_fork"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGUSR1", "SIGXCPU"):
    delattr(signal, name)
from agentgym_rl.cli import main
main()
"""


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-c", WINDOWS, *arguments], capture_output=True, text=True, cwd=cwd, timeout=120
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        pytest.param(["check", "textcraft"], marks=pytest.mark.slow),
        ["collect", "textcraft", "--policy", "oracle", "--n", "2", "--out", "demonstrations.json"],
        pytest.param(["eval", "panel=maze:test:2", "policy=oracle", "out=evals"], marks=pytest.mark.slow),
        pytest.param(["train", "--show", "experiment=smoke", "algorithm=grpo"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_what_works(arguments, tmp_path):
    found = run(*arguments, cwd=tmp_path)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    thinned(
        [
            (["train", "experiment=smoke"], "needs the package '"),
            (["check", "sqlgym"], "works on Linux and macOS only"),
            (["watch", "."], "watching needs the package 'psutil'"),
            (["collect", "maze", "--host-kind", "process", "--out", "d.json"], "works on Linux and macOS only"),
        ],
        2,
    ),
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_does_not(arguments, said, tmp_path):
    found = run(*arguments, cwd=tmp_path)
    assert found.returncode != 0 and said in " ".join((found.stdout + found.stderr).replace("│", " ").split()), found
    assert "Traceback" not in found.stderr
