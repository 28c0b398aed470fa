"""README's commands that train, and those that read what was trained, as they stand, in a shell, on the real engine.

The sizes are tiny, by ``AGENTGYM_RL_OVERRIDES``. ``train experiment=smoke`` is run by ``api/test_train.py``, LoRA by
``test_lora.py``; what needs GPUs or an API is composed in ``test_commands.py``.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from documented import ROOT, commands

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]

SIZES = {
    "cloning.epochs": 1, "algorithm.steps": 1, "algorithm.tasks_per_step": 4, "algorithm.epochs": 1,
    "envs.textcraft.demonstrations": 12, "envs.maze.demonstrations": 4, "run.eval_every": 0, "logger.wandb": "disabled",
    **{f"envs.textcraft.panels.{label}.n": 2 for label in ("new_variants", "unseen_goals", "validation")},
    **{f"envs.maze.panels.{label}.n": 2 for label in ("new_mazes", "validation")},
}  # fmt: skip
DEMO = " ".join(f"{key}={value}" for key, value in SIZES.items())
MINE = "cloning.epochs=1 envs.textcraft.panels.test.n=2 run.evaluate_untrained=false logger.wandb=disabled"

RUN = {
    "agentgym-rl collect textcraft --policy oracle --n 100 --out demonstrations.json": "",
    "agentgym-rl train env=textcraft algorithm=bc name=mine "
    "model.prompt_tokens=1024 model.response_tokens=4096 envs.textcraft.demonstrations_file=mine.json": MINE,
    "agentgym-rl train -m experiment=demo algorithm=agentevol,grpo seed=0,1,2": DEMO,
    "agentgym-rl watch runs/demo-grpo-seed0": "",
    "agentgym-rl compare 'runs/demo-*' --html compare.html": "",
    "agentgym-rl export runs/demo-grpo-seed0 --out model": "",
}
"""Commands in an order in which they can be run, and the overrides of each."""


def test_readmes_commands_train_and_read_what_was_trained(tmp_path: Path) -> None:
    shown = {shlex.join(words) for words in commands(ROOT / "README.md")}
    assert set(RUN) <= shown
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line, sizes in RUN.items():
        env = {**os.environ, "PATH": path, "AGENTGYM_RL_OVERRIDES": sizes}
        done = subprocess.run(["bash", "-ec", line], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        if line.startswith("agentgym-rl collect"):
            (tmp_path / "demonstrations.json").rename(tmp_path / "mine.json")
    assert {run.name for run in (tmp_path / "runs").glob("demo-*")} == {
        f"demo-{algorithm}-seed{seed}" for algorithm in ("agentevol", "grpo") for seed in (0, 1, 2)
    }
    assert (tmp_path / "compare.html").is_file() and (tmp_path / "model" / "agentgym_rl.json").is_file()
