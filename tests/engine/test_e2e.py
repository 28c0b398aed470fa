"""The real engine: Ray, FSDP2 and vLLM, launched as a user launches them. Selected with ``-m e2e``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentgym_rl.engine.run_folder import RunFolder

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

COMMAND = [str(Path(sys.executable).parent / "agentgym-rl"), "train", "experiment=smoke", "logger.wandb=offline"]


def train(folder: Path, *overrides: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, f"run.dir={folder}", *overrides], capture_output=True, text=True, timeout=500, check=False
    )
    if check:
        log = folder / "engine.log"
        tail = log.read_text()[-4000:] if log.is_file() else ""
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}\n{tail}"
    return done


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


@pytest.mark.parametrize("algorithm", ["bc", "grpo", "ppo", "agentevol"])
def test_two_steps_of_each_algorithm_on_one_worker(algorithm: str, tmp_path: Path) -> None:
    folder = tmp_path / algorithm
    control = ["run.control=true"] if algorithm == "agentevol" else []
    epochs = "bc.epochs=2" if algorithm == "bc" else "bc.epochs=1"
    out = train(folder, f"algorithm={algorithm}", epochs, *control).stdout
    found = summary(folder)
    names = [stage["name"] for stage in found["stages"]]
    expected = {"bc": ["untrained", "bc"], "agentevol": ["untrained", "bc", "agentevol", "control"]}
    assert names == expected.get(algorithm, ["untrained", "bc", algorithm])
    steps = {stage["name"]: stage["steps"] for stage in found["stages"]}
    assert steps[algorithm] == 2
    for stage in found["stages"]:
        result = stage["val"]["textcraft"]
        assert result["n"] == 8
        assert result["error_rate"] == 0
        assert 0 <= result["ci95"][0] <= result["success"] <= result["ci95"][1] <= 1
    assert found["panels"]["textcraft"]["new_variants"]
    assert {"verl", "torch", "ray"} <= set(found["versions"])
    for name in ("curves.png", "config.yaml", "state.json", "engine.log"):
        assert (folder / name).stat().st_size > 0
    assert list((folder / "wandb").glob("offline-run-*/run-*.wandb"))
    assert "oracle" in out and "textcraft" in out
    rows = metrics(folder)
    if algorithm in ("grpo", "ppo"):
        trained = [row for row in rows if "actor/pg_loss" in row]
        assert [row["step"] for row in trained] == [2, 3]
        # sampling and training agree on what was sampled: the same tokens, the same weights
        assert all(row["training/rollout_probs_diff_max"] < 5e-3 for row in trained)
        assert all(row["actor/grad_norm"] >= 0 for row in trained)
        if algorithm == "ppo":
            assert all(row["critic/vf_loss"] >= 0 and row["critic/grad_norm"] > 0 for row in trained)
        episodes = RunFolder(folder, (folder / "config.yaml").read_text(), True).read_episodes("step000002")
        assert len(episodes) == 16
        assert all(episode.ending.counts and episode.response_tokens > 0 for episode in episodes)
    if algorithm in ("bc", "agentevol"):
        losses = [row["supervised/loss"] for row in rows if "supervised/loss" in row]
        assert losses[-1] < losses[0]


def test_grpo_on_two_workers_with_a_vllm_replica_each(tmp_path: Path) -> None:
    folder = tmp_path / "two"
    train(folder, "algorithm=grpo", "engine.workers=2", "run.evaluate_untrained=false")
    trained = [row for row in metrics(folder) if "actor/pg_loss" in row]
    assert len(trained) == 2
    assert all(row["training/rollout_probs_diff_max"] < 5e-3 for row in trained)
    assert sorted(path.name for path in (folder / "checkpoints/global_step_3/actor").glob("model_*")) == [
        "model_world_size_2_rank_0.pt",
        "model_world_size_2_rank_1.pt",
    ]


def started(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, f"run.dir={folder}", *overrides],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for_step(folder: Path, step: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        file = folder / "metrics.jsonl"
        if file.is_file() and any(json.loads(line)["step"] >= step for line in file.read_text().splitlines()):
            return
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        time.sleep(0.3)
    pytest.fail(f"step {step} was not reached")


def processes_of(session: int) -> list[int]:
    """Live processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_interrupted_and_killed_runs_resume(tmp_path: Path) -> None:
    folder = tmp_path / "resumed"
    overrides = ("algorithm=grpo", "algorithm.steps=6", "run.save_every=1", "run.evaluate_untrained=false")

    # Ctrl-C: the step is finished, saved, and everything ends
    process = started(folder, *overrides)
    wait_for_step(folder, 2, process)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130, out
    assert "the same command resumes" in out
    state = json.loads((folder / "state.json").read_text())
    assert (folder / "checkpoints" / state["checkpoint"]).is_dir()
    interrupted_at = state["global_step"]
    assert 2 <= interrupted_at < 7
    time.sleep(3)
    assert processes_of(process.pid) == []

    # a kill: what was after the last checkpoint is done again
    process = started(folder, *overrides)
    wait_for_step(folder, interrupted_at + 2, process)
    for pid in processes_of(process.pid):
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)

    train(folder, *overrides)
    steps = [row["step"] for row in metrics(folder) if "actor/pg_loss" in row]
    assert steps == [2, 3, 4, 5, 6, 7]
    assert [stage["name"] for stage in summary(folder)["stages"]] == ["bc", "grpo"]
    assert summary(folder)["stages"][-1]["steps"] == 6


def test_a_worker_that_dies_during_start_up_ends_the_run_with_its_own_error(tmp_path: Path) -> None:
    folder = tmp_path / "dies"
    begun = time.monotonic()
    done = train(folder, "+verl.actor_rollout_ref.actor.optim.optimizer=NoSuchOptimizer", check=False)
    assert done.returncode == 1
    assert "NoSuchOptimizer" in done.stdout
    assert time.monotonic() - begun < 200


def test_verls_own_entry_point_trains_in_our_worlds(tmp_path: Path) -> None:
    """The command of docs/verl.md, on the tiny model."""
    prepared = tmp_path / "prepared"
    code = (
        "import asyncio, sys; from pathlib import Path; from agentgym_rl.engine import recipes, tiny\n"
        "config = recipes.load(['experiment=smoke'])\n"
        "tiny.build(Path(sys.argv[1]), config.model, asyncio.run(tiny.corpus(config)), 0)"
    )
    subprocess.run([sys.executable, "-c", code, str(prepared)], check=True, capture_output=True)
    page = Path(__file__).parents[2] / "docs" / "verl.md"
    block = page.read_text().split("```bash")[1].split("```")[0]
    script = block.replace("MODEL_FOLDER", str(prepared)).replace("OUTPUT_FOLDER", str(tmp_path / "out"))
    process = subprocess.Popen(
        ["bash", "-euc", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    try:
        out, _ = process.communicate(timeout=500)
    finally:
        for pid in processes_of(process.pid):
            os.kill(pid, signal.SIGKILL)
    assert process.returncode == 0, out[-6000:]
    assert "val-core/textcraft" in out
    assert "Final validation metrics" in out
