"""The picture and the table at the end of a run."""

import math
from io import StringIO
from pathlib import Path

import pytest
from made_runs import write_run
from rich.console import Console

pytest.importorskip("matplotlib")

from agentgym_rl.cli.report import picture
from agentgym_rl.eval import report
from agentgym_rl.eval.report import draw, percent, results


def score(success, low, high, n=20):
    return {"success": success, "ci95": [low, high], "n": n, "reward": success, "turns": 4.0, "error_rate": 0.0}


def stage(name, success, envs):
    both = {"sampled": score(success, success - 0.1, success + 0.1), "greedy": score(success + 0.05, 0.0, 1.0, n=10)}
    return {"name": name, "panels": {"unseen_goals": dict.fromkeys(envs, both)}}


def summary(*envs):
    return {
        "stages": [stage("bc", 0.3, envs), stage("grpo", 0.6, envs)],
        "reference": {
            "random": {"unseen_goals": dict.fromkeys(envs, score(0.1, 0.02, 0.31))},
            "oracle": {"unseen_goals": dict.fromkeys(envs, score(1.0, 0.84, 1.0))},
        },
    }


@pytest.mark.parametrize("envs", [("counter",), tuple(f"env{number}" for number in range(9))])
def test_a_picture_is_written(tmp_path, envs):
    metrics = [{"step": 1, "stage/bc": 1}]
    metrics += [
        {"step": step, "run/episodes": 8 * step, **{f"env/{env}/success": 0.1 * step for env in envs}}
        for step in range(2, 6)
    ]
    path = draw(summary(*envs), metrics, tmp_path / "curves.png", "a run, seed 0")
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert path.stat().st_size > 10_000
    assert [file.name for file in tmp_path.iterdir()] == ["curves.png"]


def test_a_picture_that_is_interrupted_leaves_the_old_one_and_nothing_beside_it(tmp_path, monkeypatch):
    def interrupted(self, place, **options):
        Path(place).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", interrupted)
    (tmp_path / "curves.png").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        draw(summary("counter"), [{"step": 1}], tmp_path / "curves.png", "bc")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


def test_a_picture_without_training_episodes(tmp_path):
    assert draw(summary("counter"), [{"step": 1}], tmp_path / "curves.png", "bc").is_file()


def test_the_table_holds_every_policy_with_its_intervals():
    console = Console(width=160, file=StringIO())
    console.print(results(summary("counter", "vast")))
    lines = console.file.getvalue().splitlines()
    rows = [line for line in lines if "[" in line]
    assert [row.split()[1] for row in rows] == ["random", "bc", "grpo", "oracle"]
    assert [row.count("10.0 [2, 31]") for row in rows] == [2, 0, 0, 0]
    assert [row.count("30.0 [20, 40]") for row in rows] == [0, 2, 0, 0]
    assert [row.count("65.0 [0, 100]") for row in rows] == [0, 0, 2, 0]
    assert [row.count("100.0 [84, 100]") for row in rows] == [0, 0, 0, 2]
    header = "\n".join(lines)
    assert "unseen goals" in header and "sampled, n=20" in header and "greedy, n=10" in header


def test_a_table_without_bounds():
    table = results({"stages": summary("counter")["stages"]})
    assert table.row_count == 2


def test_a_panel_without_an_episode_that_counts_has_no_success(tmp_path):
    report = summary("counter", "vast")
    empty = {"success": None, "ci95": None, "n": 0, "tasks": 0, "reward": None, "turns": None, "error_rate": 1.0}
    for of_stage in report["stages"]:
        of_stage["panels"] = {"unseen_goals": {**of_stage["panels"]["unseen_goals"], "vast": {"sampled": empty}}}
    report["reference"]["oracle"] = {"unseen_goals": {"counter": score(1.0, 0.84, 1.0), "vast": empty}}
    cells = [[*column.cells] for column in results(report).columns]
    assert cells[-1] == ["10.0 [2, 31]", "-", "-", "-"], "random, bc, grpo, oracle on vast"
    assert draw(report, [{"step": 1}], tmp_path / "curves.png", "a run").is_file()


def test_percent():
    assert percent(score(1 / 3, 0.1234, 0.6)) == "33.3 [12, 60]"


def test_a_step_without_episodes_of_an_environment_is_a_gap_in_its_curve():
    metrics = [
        {"run/episodes": 8, "env/maze/success": 0.5, "env/house/success": 0.0},
        {"run/episodes": 16, "env/house/success": 0.25},
        {"run/episodes": 24, "env/maze/success": 1.0, "env/house/success": 0.5},
        {"run/episodes": 24, "val/test/maze/success": 0.5},
    ]
    line = report._training_line("maze", metrics, "red")
    assert line.x == {"episodes": [8, 16, 24]} and line.y[::2] == [50, 100] and math.isnan(line.y[1])
    assert report._training_line("wordle", metrics, "red").y == []


def test_a_metric_without_a_value_is_a_gap_in_the_picture(tmp_path):
    rows = [
        {"step": step, "run/episodes": step, "env/toy/success": value} for step, value in enumerate((0.1, None, 0.2))
    ]
    assert picture(write_run(tmp_path / "run", stages={"grpo": 0.2}, metrics=rows)).is_file()


def test_metrics_of_a_finished_run_that_are_cut_are_named(tmp_path):
    run = write_run(tmp_path / "run", stages={"grpo": 0.2})
    (run / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2, "sta')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2"):
        picture(run)
