"""A run seen while it runs."""

import json
import os
from contextlib import ExitStack
from io import StringIO
from pathlib import Path

import pytest
from made_runs import write_run
from rich.console import Console
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.engine.run.lock import locked
from agentgym_rl.eval import watching


def unit(step, stage, number, units, **metrics):
    position = {f"stage/{stage}": number, "run/units": units, "run/episodes": 16 * number, "run/wall_s": 10.0 * number}
    return {"step": step, **position, **metrics}


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


def test_where_a_run_stands(run, monkeypatch):
    monkeypatch.chdir(run)
    assert watching.read(Path()).name == "mine"
    standing = watching.read(run)
    assert (standing.stage, standing.left_s, standing.finished) == ("grpo", 20.0, False)
    assert standing.curves() == {("toy", "new"): [0.1, 1.0], ("toy", "training"): [0.0, 0.5]}
    assert standing.failures() == {}, "the newest step had none"
    text = drawn(standing, now=standing.written + 65)
    for part in ("mine  not running, last row 1:05 ago", "grpo 2 of 4", "32 training episodes", "2 episodes/s",
                 "about 0:20 of this", "toy", "training", "50.0 %", "▁▅", "100.0 %", "▁█"):  # fmt: skip
        assert part in text
    assert "left, without the evaluation at its end" in " ".join(text.split()), "those on the way slow its pace"


def test_failures_of_the_newest_step_are_named(run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(unit(4, "grpo", 3, 4, **{"env/toy/error_rate": 0.125, "rollout/parser_faults": 2})))
        file.write('\n{"step": 5, "st')  # a row that is being written
    standing = watching.read(run)
    assert standing.failures() == {"env/toy/error_rate": 0.125, "rollout/parser_faults": 2}
    assert "env/toy/error_rate: 0.125" in drawn(standing)


def test_a_run_that_has_only_begun(run):
    (run / "metrics.jsonl").write_text("")
    standing = watching.read(run)
    assert "mine  run by me, no row yet, for 1:05" in drawn(standing, "run by me", standing.written + 65)
    (run / "metrics.jsonl").write_text(json.dumps(ROWS[2]) + "\n")
    assert watching.read(run).left_s is None, "one unit has no pace"


def test_a_run_that_learns_nothing_says_so(run):
    with (run / "metrics.jsonl").open("a") as file:
        for number in (3, 4):
            file.write(json.dumps(unit(number + 1, "grpo", number, 4, **{"env/toy/context_share": 1.0})) + "\n")
    says = "grpo is not learning: nearly all episodes are cut at the context limit (toy 100%); raise model.response"
    assert says in " ".join(drawn(watching.read(run)).split())
    (finding,) = watching.read(run).to_dict()["findings"]
    assert (finding["stage"], finding["rule"]) == ("grpo", "context limit")


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
    progress = json.loads(CliRunner().invoke(app, ["watch", str(run), "--json"]).stdout)
    assert (progress["stage"], progress["unit"], progress["units"], progress["left_s"]) == ("grpo", 2, 4, 20.0)
    assert {"environment": "toy", "episodes_of": "new", "values": [0.1, 1.0]} in progress["success"]
    assert progress["process"] is None and not progress["finished"]


def test_the_command(run, tmp_path):
    invoke = CliRunner().invoke
    assert "not running; the same command resumes" in invoke(app, ["watch", str(run)]).output
    with locked(run):
        assert f"process {os.getpid()}" in invoke(app, ["watch", str(run), "--once"]).output
    lock = {"owner": "me", "host": os.uname().nodename, "pid": 2**22 + 1, "started": "today"}
    (run / ".lock").write_text(json.dumps(lock))
    assert "not running" in invoke(app, ["watch", str(run)]).output, "its process is gone"
    for words in (["--once", "--wait", "9"], ["--json", "--every", "9"]):
        result = invoke(app, ["watch", str(run), *words])
        assert result.exit_code == 2 and "leave them out with --once and --json" in result.output
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


def test_a_run_that_is_starting_has_no_metrics_yet(tmp_path):
    assert watching.read(tmp_path, "me").rows == [] and not watching.begun(tmp_path)
    with locked(tmp_path):
        shown = CliRunner().invoke(app, ["watch", str(tmp_path), "--once"]).output
        assert f"process {os.getpid()}" in shown and "no row yet, for 0:0" in shown
        progress = json.loads(CliRunner().invoke(app, ["watch", str(tmp_path), "--json"]).stdout)
        assert progress["stage"] is None and f"process {os.getpid()}" in progress["process"]


def test_it_waits_for_a_run_that_is_not_there_yet(run, tmp_path, monkeypatch):
    """First nothing, then a process in the folder, then metrics, then the end."""
    later, looks, screen = tmp_path / "later", [], StringIO()
    events = [lambda: later.mkdir(), lambda: locks.enter_context(locked(later)),
              lambda: (later / "metrics.jsonl").write_text((run / "metrics.jsonl").read_text()),
              lambda: (locks.close(), (later / "summary.json").write_text("{}"))]  # fmt: skip

    def sleep(seconds):
        looks.append(seconds)
        events.pop(0)()

    monkeypatch.setattr("agentgym_rl.cli.watch.time.sleep", sleep)
    monkeypatch.setattr("agentgym_rl.cli.watch.console", lambda: Console(force_terminal=True, width=200, file=screen))
    with ExitStack() as locks:
        result = CliRunner().invoke(app, ["watch", str(later)])
    assert (result.exit_code, events) == (0, [])
    seen = screen.getvalue()
    places = [seen.index(part) for part in ("waiting for a run in", "no row yet", "grpo 2 of 4", "finished, last row")]
    assert places == sorted(places)


def test_it_waits_no_longer_than_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("agentgym_rl.cli.watch.console", lambda: Console(force_terminal=True, file=StringIO()))
    result = CliRunner().invoke(app, ["watch", str(tmp_path), "--every", "0.1", "--wait", "0.2"])
    assert result.exit_code == 2 and "is not the folder of a run" in result.output
