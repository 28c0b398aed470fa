"""Finding and reading runs."""

import json
import re

import pytest
from made_runs import unfinish, write_run
from test_learning import metrics
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.eval.comparison.arms import arms
from agentgym_rl.eval.comparison.learning import curve
from agentgym_rl.eval.comparison.runs import read, read_all


def test_a_run_comes_back(tmp_path):
    folder = write_run(tmp_path / "a", seed=3, stages={"bc": 0.2, "grpo": 0.5}, metrics=[{"step": 1}])
    run = read(folder)
    assert (run.name, run.algorithm, run.seed, list(run.stages)) == ("a", "grpo", 3, ["bc", "grpo"])
    assert run.digests == {("toy", "new"): "d-new"}
    assert run.config["algorithm.lr"] == 1e-3 and run.config["envs.toy.split"] == "train"
    assert run.metrics == [{"step": 1}]
    assert not run.is_validation("toy", "new")


def test_a_run_that_goes_on_comes_back(tmp_path):
    folder = write_run(tmp_path / "a", stages={"bc": 0.2, "grpo": 0.5}, metrics=metrics([0.3, 0.4]), episodes=200)
    run = read(unfinish(folder, "grpo"))
    assert (run.name, run.stage, list(run.stages)) == ("a", "grpo", ["bc", "grpo"])
    assert run.stages["grpo"] == {"name": "grpo", "panels": {}, "episodes": 200, "wall_s": 120.0}
    assert run.digests == {("toy", "new"): ""} and len(run.metrics) == 6


def test_units_after_the_newest_checkpoint_of_a_run_that_goes_on_are_spent_too(tmp_path):
    """By default a run is saved every 25 units; its curves are counted back from what it has spent."""
    rows = [row | ({} if "val/new/toy/success" in row else {"run/units": 40}) for row in metrics([0.3, 0.4, 0.5])]
    folder = unfinish(write_run(tmp_path / "a", stages={"bc": 0.2, "grpo": 0.5}, metrics=rows), "grpo")
    state = {"results": [], "stage_episodes": 100, "stage_wall_s": 70.0, "episodes": 100, "wall_s": 97.0}
    (folder / "state.json").write_text(json.dumps(state))  # of step 1 of 3, after its evaluation
    run = read(folder)
    assert run.stages["grpo"] == {"name": "grpo", "panels": {}, "episodes": 300, "wall_s": 183.0}
    (arm,) = arms([run])
    assert curve(arm, "env/toy/success").x["episodes"] == (100, 200, 300)


def test_folders_of_runs_and_globs(tmp_path):
    runs = [write_run(tmp_path / "runs" / name, stages={"bc": 0.2}) for name in ("b1", "a1", "a2")]
    (tmp_path / "runs" / "going").mkdir()
    (tmp_path / "runs" / "going" / "config.yaml").write_text("seed: 0\n")
    (tmp_path / "runs" / "no_run").mkdir()

    def found(*places):
        return [run.name for run in read_all([str(place) for place in places])[0]]

    assert [path.name for path in read_all([str(tmp_path / "runs")])[1]] == ["going"]
    assert found(tmp_path / "runs") == found(tmp_path / "r*") == ["a1", "a2", "b1"]
    assert found(tmp_path / "runs" / "a*") == ["a1", "a2"]
    assert found(runs[0], runs[0], tmp_path / "runs" / "b*") == ["b1"]


DAMAGE = {
    "config.yaml": "[",
    "summary.json": '{"name"',
    "metrics.jsonl": '{"step": 1, "stage/grpo": 1}\n{"step": 2, "sta\n{"step": 3}\n',
}


@pytest.mark.parametrize("file", DAMAGE)
def test_a_damaged_run_is_named_and_the_others_are_compared(tmp_path, file):
    whole, damaged = (write_run(tmp_path / name, seed=seed, stages={"grpo": 0.2}) for seed, name in enumerate("ab"))
    (damaged / file).write_text(DAMAGE[file])
    runs, begun, faults = read_all([str(tmp_path)])
    assert [run.folder for run in runs] == [whole] and not begun
    assert len(faults) == 1 and str(damaged / file) in faults[0]
    with pytest.raises(ValueError, match=file):
        read_all([str(whole), str(damaged)])
    for form in ([], ["--json"]):
        result = CliRunner().invoke(app, ["compare", str(tmp_path), *form])
        assert result.exit_code == 0 and f"left out, damaged: {damaged / file}" in result.output


def test_where_no_run_is_whole_the_first_fault_is_the_error(tmp_path):
    for name in "ab":
        (write_run(tmp_path / name, stages={"grpo": 0.2}) / "config.yaml").write_text("[")
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / "a" / "config.yaml"))):
        read_all([str(tmp_path / "*")])


@pytest.mark.parametrize("line", ["[1]", '{"stage/grpo": 1}', "3"])
def test_a_line_of_metrics_that_is_no_step_is_named(tmp_path, line):
    run = write_run(tmp_path / "a", stages={"grpo": 0.2})
    (run / "metrics.jsonl").write_text('{"step": 1}\n' + line + "\n")
    with pytest.raises(ValueError, match=r"metrics.jsonl, line 2: not the metrics of a step"):
        read_all([str(run)])


@pytest.mark.parametrize("value", ["NaN", "Infinity", "null"])
def test_a_count_or_a_success_that_is_no_number_is_named(tmp_path, value):
    run = write_run(tmp_path / "a", stages={"grpo": 0.2})
    (run / "metrics.jsonl").write_text(f'{{"step": 1, "stage/grpo": 1, "run/wall_s": {value}}}\n')
    with pytest.raises(ValueError, match=r"metrics.jsonl, line 1: run/wall_s is .*, not a finite number"):
        read_all([str(run)])
    summary = (run / "summary.json").read_text()
    (run / "summary.json").write_text(summary.replace('"success": 0.2', f'"success": {value}'))
    with pytest.raises(ValueError, match=r"summary\.json.*number"):
        read_all([str(run)])


@pytest.mark.parametrize(
    ("place", "says"),
    [("none", "none does not exist"), ("x*", r"x\* does not exist"), ("going", "not the folder of a run that can")],
)
def test_places_without_a_finished_run(tmp_path, place, says):
    (tmp_path / "going").mkdir()
    (tmp_path / "going" / "config.yaml").write_text("seed: 0\n")
    with pytest.raises(FileNotFoundError, match=says):
        read_all([str(tmp_path / place)])


def test_files_that_are_not_a_run(tmp_path):
    folder = write_run(tmp_path / "a", stages={"bc": 0.2})
    (folder / "summary.json").write_text('{"name": "a"}')
    with pytest.raises(ValueError, match=r"summary\.json has no 'algorithm'"):
        read(folder)
    (folder / "summary.json").write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        read(folder)
    (folder / "config.yaml").unlink()
    with pytest.raises(FileNotFoundError, match=r"config\.yaml does not exist"):
        read(folder)
