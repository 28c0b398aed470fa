"""A run seen while it runs."""

import json
import os
from io import StringIO

import pytest
from made_runs import write_run
from rich.console import Console
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.engine.run.lock import locked
from agentgym_rl.eval import watching


def unit(step, stage, number, units, **metrics):
    own = {f"stage/{stage}": number, "run/units": units, "run/episodes": 16 * number, "run/wall_s": 10.0 * number}
    return {"step": step, **own, **metrics}


ROWS = [
    unit(1, "bc", 1, 1),
    {"step": 1, "stage/bc": 1, "val/new/toy/success": 0.1},
    unit(2, "grpo", 1, 4, **{"env/toy/success": 0.0, "env/toy/error_rate": 0.25, "rollout/episodes_per_s": 3.0}),
    unit(3, "grpo", 2, 4, **{"env/toy/success": 0.5, "env/toy/error_rate": 0.0, "rollout/episodes_per_s": 2.0}),
    {"step": 3, "stage/grpo": 2, "val/new/toy/success": 1.0},
]


@pytest.fixture
def run(tmp_path):
    folder = write_run(tmp_path / "mine", stages={"bc": 0.1}, metrics=ROWS)
    (folder / "summary.json").unlink()
    return folder


def drawn(standing, process="not running", now=None):
    console = Console(width=120, record=True, file=StringIO())
    console.print(watching.picture(standing, process, now))
    return console.export_text()


def test_where_a_run_stands(run):
    standing = watching.read(run)
    assert (standing.stage, standing.left_s, standing.finished) == ("grpo", 20.0, False)
    assert standing.curves() == {("toy", "new"): [0.1, 1.0], ("toy", "training"): [0.0, 0.5]}
    assert standing.failures() == {}, "the newest step had none"
    text = drawn(standing, now=standing.written + 65)
    for part in ("mine  not running, last row 1:05 ago", "grpo 2 of 4", "32 training episodes", "2 episodes/s",
                 "about 0:20 of this", "toy", "training", "50.0 %", "▁▅", "100.0 %", "▁█"):  # fmt: skip
        assert part in text


def test_failures_of_the_newest_step_are_named(run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(unit(4, "grpo", 3, 4, **{"env/toy/error_rate": 0.125, "rollout/parser_faults": 2})))
        file.write('\n{"step": 5, "st')  # a row that is being written
    standing = watching.read(run)
    assert standing.failures() == {"env/toy/error_rate": 0.125, "rollout/parser_faults": 2}
    assert "env/toy/error_rate: 0.125" in drawn(standing)


def test_a_run_that_has_only_begun(run):
    (run / "metrics.jsonl").write_text("")
    assert "no row yet" in drawn(watching.read(run))
    (run / "metrics.jsonl").write_text(json.dumps(ROWS[2]) + "\n")
    assert watching.read(run).left_s is None, "one unit has no pace"


def test_errors_are_counted_by_kind_over_the_run(run):
    with (run / "metrics.jsonl").open("a") as file:
        for number in (3, 4):
            file.write(
                json.dumps(unit(number + 1, "grpo", number, 4, **{"errors/timeout": 2, "errors/retried": 0})) + "\n"
            )
    standing = watching.read(run)
    assert standing.failures() == {"errors/timeout": 4}
    assert "errors/timeout: 4" in drawn(standing)


def test_json_for_a_machine(run):
    found = json.loads(CliRunner().invoke(app, ["watch", str(run), "--json"]).stdout)
    assert (found["stage"], found["unit"], found["units"], found["left_s"]) == ("grpo", 2, 4, 20.0)
    assert {"environment": "toy", "episodes_of": "new", "values": [0.1, 1.0]} in found["success"]
    assert found["process"] is None and not found["finished"]


def test_the_command(run, tmp_path):
    invoke = CliRunner().invoke
    assert "not running; the same command resumes" in invoke(app, ["watch", str(run)]).output
    with locked(run):
        assert f"process {os.getpid()}" in invoke(app, ["watch", str(run), "--once"]).output
    lock = {"owner": "me", "host": os.uname().nodename, "pid": 2**22 + 1, "started": "today"}
    (run / ".lock").write_text(json.dumps(lock))
    assert "not running" in invoke(app, ["watch", str(run)]).output, "its process is gone"
    nothing = invoke(app, ["watch", str(tmp_path)])
    assert nothing.exit_code == 2 and "is not the folder of a run" in nothing.output


def test_it_draws_anew_until_the_run_is_finished(run, monkeypatch):
    looks = []

    def finish(seconds):
        looks.append(seconds)
        (run / "summary.json").write_text("{}")

    monkeypatch.setattr("agentgym_rl.cli.watch.time.sleep", finish)
    monkeypatch.setattr("agentgym_rl.cli.watch.console", lambda: Console(force_terminal=True, file=StringIO()))
    result = CliRunner().invoke(app, ["watch", str(run), "--every", "0.5"])
    assert (result.exit_code, looks) == (0, [0.5])
