"""Seconds of a run's steps by phase, from made-up metrics."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

phases = pytest.importorskip("phases")

STEP = {"step": 10.0, "gen": 4.0, "score": 1.0, "update_models": 2.0, "update_actor": 2.5}


def test_what_no_phase_names_is_everything_else():
    found = phases.seconds({f"timing_s/{name}": seconds for name, seconds in STEP.items()})
    assert (found["scores"], found["other models"], found["everything else"]) == (1.0, 2.0, 0.5)
    lines = list(phases.table([{f"timing_s/{name}": seconds for name, seconds in STEP.items()}]))
    assert lines[-1] == "outside model work: 5.0% of a step (median)"


def test_a_phase_that_the_first_step_lacks_has_its_line():
    """A step of PPO that warms up the critic updates no policy."""
    timed = {f"timing_s/{name}": seconds for name, seconds in STEP.items()}
    warm_up = {name: seconds for name, seconds in timed.items() if not name.endswith("update_actor")}
    assert [line.split()[1:3] for line in phases.table([warm_up, timed]) if line.startswith("update")] == [
        ["0.00", "2.50"]
    ]


def test_most_memory_of_each_worker(tmp_path):
    assert list(phases.peaks(tmp_path)) == []
    (tmp_path / "summary.json").write_text(json.dumps({"memory_gib": {"training worker 0": 1.5, "vLLM server 0": 3}}))
    assert list(phases.peaks(tmp_path)) == ["most memory of training worker 0, GiB: 1.50"]


def test_episodes_are_of_the_step_whose_seconds_are_known():
    """A run that was stopped within a step has episodes of a later one."""
    pandas = pytest.importorskip("pandas")
    files = ["step000001.parquet", "step000002.a.parquet", "step000002.b.parquet", "step000003.a.parquet", "val"]
    run = SimpleNamespace(episodes=pandas.DataFrame({"file": files}), episode=lambda row: row["file"])
    assert phases.of_step(run, 2) == files[1:3]
    turn = SimpleNamespace(tokens=(0, 4))
    run.config, run.folder = {}, Path("run")
    run.episode = lambda row: SimpleNamespace(segments=2, turns=[turn], prompt_tokens=3)
    with pytest.raises(SystemExit, match="run has episodes of several segments"):
        list(phases.compare_alone(run, {"step": 2, "timing_s/gen": 1.0}))
