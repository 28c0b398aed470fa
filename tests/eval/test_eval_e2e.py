"""A run's own evaluation, repeated from its checkpoint by the real engine. Selected with ``-m e2e``."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

COMMAND = str(Path(sys.executable).parent / "agentgym-rl")
TRAIN = (
    "experiment=smoke", "algorithm=bc", "logger.wandb=disabled", "run.cache=null", "run.dir=run", "env=maze",
    "worlds.maze.difficulty=[steps 1-4]", "worlds.maze.experts=48", "worlds.maze.panels.test.n=8",
    "worlds.maze.max_turns=8", "worlds.textcraft.share=0", "worlds.textcraft.experts=0", "bc.epochs=10", "bc.batch=2",
    "bc.lr=4e-3", "run.evaluate_untrained=false",
)  # fmt: skip


def command(place: Path, *arguments: str) -> str:
    done = subprocess.run([COMMAND, *arguments], cwd=place, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def test_an_exported_run_reproduces_its_greedy_score_on_vllm(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_RL_CACHE", str(tmp_path / "cache"))
    command(tmp_path, "train", *TRAIN)
    stage = json.loads((tmp_path / "run" / "summary.json").read_text())["stages"][-1]
    command(tmp_path, "export", "run", "--out", "model")
    for policy, out in (("run", "a"), ("./model", "b")):
        command(tmp_path, "eval", "panel=run:test", f"policy={policy}", f"out={out}")
        found = json.loads((tmp_path / out / "result.json").read_text())
        assert found["plan"]["backend"] == "vllm"
        own, score = stage["panels"]["test"]["maze"]["greedy"], found["worlds"]["maze"]
        assert (score["episodes"], score["success"]["value"]) == (own["n"], pytest.approx(own["success"]))
        assert score["reward"]["value"] == pytest.approx(own["reward"])
        assert score["turns"]["value"] == pytest.approx(own["turns"])
    assert "McNemar" in command(tmp_path, "eval", "--compare", "a", "b")
