"""Runs with different seeds beside each other."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.eval.compare import across_seeds


def summary(seed: int, bc: float, evolved: float, control: float, panels: str = "abc") -> dict[str, Any]:
    def stage(name: str, success: float) -> dict[str, Any]:
        result = {"success": success, "ci95": [0.0, 1.0], "n": 10}
        return {"name": name, "panels": {"new": {"toy": {"sampled": result, "greedy": result}}}}

    stages = [stage("bc", bc), stage("agentevol", evolved), stage("control", control)]
    return {"name": f"run{seed}", "seed": seed, "algorithm": "agentevol", "panels": panels, "stages": stages}


def text(table: Any) -> str:
    out = StringIO()
    Console(width=160, file=out).print(table)
    return out.getvalue()


def test_means_values_and_gains() -> None:
    shown = text(across_seeds([summary(1, 0.2, 0.4, 0.3), summary(2, 0.1, 0.2, 0.25)]))
    assert "seeds 1, 2" in shown
    assert "30.0 (40.0, 20.0)" in shown  # agentevol
    assert "+15.0 (+20.0, +10.0)" in shown  # over bc
    assert "+2.5 (+10.0, -5.0)" in shown  # over the control


def test_runs_on_other_panels_are_not_compared() -> None:
    with pytest.raises(ValueError, match="differ"):
        across_seeds([summary(1, 0.2, 0.4, 0.3), summary(2, 0.1, 0.2, 0.25, panels="other")])


def test_command_names_an_unfinished_run(tmp_path: Path) -> None:
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "summary.json").write_text(json.dumps(summary(0, 0.1, 0.2, 0.1)))
    assert CliRunner().invoke(app, ["compare", str(tmp_path / "done")]).exit_code == 0
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "done"), str(tmp_path / "other")])
    assert result.exit_code == 2
    assert "not the folder of a finished run" in result.output
