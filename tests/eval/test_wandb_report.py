"""examples/wandb_report.py, as far as it goes without W&B."""

import sys
import warnings
from pathlib import Path

import pytest
from made_runs import write_run
from test_learning import metrics

pytest.importorskip("wandb_workspaces")

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of the library's own classes
    import wandb_report

from agentgym_rl.eval.comparison.runs import read


@pytest.fixture
def folders(tmp_path):
    rows = metrics([0.3, 0.4], share=[0.5, 0.6], max_turns=[4, 8])
    config = {"logger": {"project": "agentgym-rl"}}
    return [
        write_run(tmp_path / f"grpo-seed{seed}", seed=seed, stages={"grpo": 0.5}, metrics=rows, config=config)
        for seed in (0, 1)
    ]


def command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["wandb_report.py", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        wandb_report.main()
    return str(stopped.value)


def test_the_report_has_a_plot_for_every_metric(folders):
    report = wandb_report.build([read(folder) for folder in folders], "project", "team")
    assert (report.project, report.entity, report.title) == ("project", "team", "grpo: 2 runs")
    grids = [block for block in report.blocks if hasattr(block, "panels")]
    plotted = [panel.y for grid in grids for panel in grid.panels if hasattr(panel, "y")]
    names = [[getattr(metric, "name", metric) for metric in metrics] for metrics in plotted]
    assert names == [["val/new/toy/success"], ["env/toy/success"], ["env/toy/share"], ["env/toy/max_turns"]]
    assert [panel.table_name for panel in grids[-1].panels] == ["val/new/toy/episodes"]
    assert all(grid.runsets[0].groupby == ["Group", "JobType"] for grid in grids)


def test_without_a_network_it_says_so(folders, monkeypatch):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    assert command(monkeypatch, *folders).startswith("Error: http://127.0.0.1:9 cannot be reached")


def test_without_runs_it_says_so(tmp_path, monkeypatch):
    assert "nothing does not exist" in command(monkeypatch, tmp_path / "nothing")


def test_a_run_that_is_left_out_is_named(folders, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    (folders[1] / "summary.json").write_text("{")
    command(monkeypatch, folders[0].parent)
    assert f"left out: {folders[1]}" in capsys.readouterr().err
