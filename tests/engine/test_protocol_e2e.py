"""verl-agent's ALFWorld with generated games and a tiny model, on the real engine; and its reproduction, end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_published_recipes import TINY

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

PYTHON = [sys.executable, "-m", "agentgym_rl.cli"]
SMALL = [
    *TINY, "algorithm.tasks_per_step=2", "algorithm.samples_per_task=2", "envs.alfworld.max_turns=3",
    "envs.alfworld.pool=8", "envs.alfworld.panels.test.n=2", "engine.workers=1", "run.cache=cache",
    "logger.wandb=disabled", "run.evaluate_untrained=false",
]  # fmt: skip
ALGORITHMS = ("gigpo", "grpo", "agentevol")


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [*PYTHON, *words], cwd=folder, capture_output=True, text=True, timeout=500, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def test_verl_agents_alfworld_takes_two_steps_with_every_kind_of_algorithm(tmp_path: Path) -> None:
    every = f"algorithm={','.join(ALGORITHMS)}"
    name = "name=verl_agent_alfworld_${algorithm.name}_1.5b-seed${seed}"
    out = run(tmp_path, "train", "-m", "experiment=verl_agent_alfworld", every, name, *SMALL)
    assert out.count("engine ready") == 1
    for algorithm in ALGORITHMS:
        folder = tmp_path / "runs" / f"verl_agent_alfworld_{algorithm}_1.5b-seed0"
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        played = [row for row in rows if f"stage/{algorithm}" in row and "curriculum/max_turns" in row]
        assert [row["run/episodes"] for row in played] == [4, 8], algorithm

    out = run(tmp_path, "reproduce", "verl_agent_alfworld_grpo_1.5b", *SMALL)
    assert "not the published settings: " in out and "model.path=None" in out and "alfworld" in out
    result = json.loads((tmp_path / "reproductions" / "verl_agent_alfworld_grpo_1.5b" / "result.json").read_text())
    (line,) = result["lines"]
    assert (line["published"], line["over"], result["cost"]["episodes"]) == (72.8, "tasks", 8)
    assert result["panels"].keys() == {"alfworld"} and result["cost"]["cpu_hours"] > 0
