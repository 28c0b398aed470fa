"""Finding and reading runs."""

import json

import pytest
from made_runs import unfinish, write_run
from test_learning import metrics

from agentgym_rl.eval.comparison.arms import arms
from agentgym_rl.eval.comparison.learning import curve
from agentgym_rl.eval.comparison.runs import find, read


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
    finished, unfinished = find([str(tmp_path / "runs")])
    assert [path.name for path in finished] == ["a1", "a2", "b1"]
    assert [path.name for path in unfinished] == ["going"]
    assert [path.name for path in find([str(tmp_path / "runs" / "a*")])[0]] == ["a1", "a2"]
    assert [path.name for path in find([str(tmp_path / "r*")])[0]] == ["a1", "a2", "b1"]
    assert find([str(runs[0]), str(runs[0]), str(tmp_path / "runs" / "b*")])[0] == [runs[0]]


@pytest.mark.parametrize(
    ("place", "says"),
    [("none", "none does not exist"), ("x*", r"x\* does not exist"), ("going", "not the folder of a run that can")],
)
def test_places_without_a_finished_run(tmp_path, place, says):
    (tmp_path / "going").mkdir()
    (tmp_path / "going" / "config.yaml").write_text("seed: 0\n")
    with pytest.raises(FileNotFoundError, match=says):
        find([str(tmp_path / place)])


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
