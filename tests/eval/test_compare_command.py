"""``agentgym-rl compare``."""

import pytest
from made_runs import unfinish, write_run
from test_learning import metrics
from typer.testing import CliRunner

from agentgym_rl.cli import app


@pytest.fixture
def folder(tmp_path):
    """Two algorithms, two seeds each, and a run that is not finished."""
    for algorithm, gain in (("grpo", 0.2), ("agentevol", 0.3)):
        for seed in (0, 1):
            write_run(
                tmp_path / "runs" / f"{algorithm}{seed}", algorithm=algorithm, seed=seed, seconds=180.0, episodes=300,
                stages={"bc": 0.1 + 0.1 * seed, algorithm: 0.1 + 0.1 * seed + gain},
                metrics=metrics([0.3, 0.4, 0.5]) if algorithm == "grpo" else [],
            )  # fmt: skip
    (tmp_path / "runs" / "going").mkdir()
    (tmp_path / "runs" / "going" / "config.yaml").write_text("seed: 0\n")
    return tmp_path / "runs"


def command(*arguments):
    result = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    return result.exit_code, result.output


def test_a_folder_of_runs_with_every_output(folder, tmp_path):
    out = tmp_path / "out"
    files = {f"--{kind}": out / f"a.{kind}" for kind in ("csv", "html", "latex", "markdown")}
    code, output = command(folder, *(word for pair in files.items() for word in pair))
    assert code == 0, output
    assert "agentevol" in output and "+30.0" in output and "left out, nothing is learnt yet: " in output
    assert sorted(path.name for path in out.iterdir()) == [file.name for file in files.values()]
    assert output.count("written: ") == 4


def test_a_picture(folder, tmp_path):
    pytest.importorskip("matplotlib")
    code, output = command(folder, "--png", tmp_path / "a.png")
    assert code == 0 and (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG"), output


def test_a_picture_of_no_curves_is_refused_before_a_file_is_written(folder, tmp_path):
    pytest.importorskip("matplotlib")
    for run in folder.glob("grpo*"):
        (run / "metrics.jsonl").unlink()
    code, output = command(folder, "--png", tmp_path / "a.png", "--csv", tmp_path / "a.csv")
    assert code == 2 and "there are no curves to draw" in output
    assert not (tmp_path / "a.csv").exists()


def test_globs_baseline_and_decoding(folder):
    code, output = command(folder / "*", "--baseline", "grpo", "--decoding", "greedy")
    assert code == 0, output
    assert "Success in %, greedy" in output and "+10.0" in output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["going"], "going is not the folder of a run that can be compared and holds none"),
        (["nothing"], "does not exist"),
        (["grpo0", "--baseline", "ppo"], "there is no arm 'ppo'; the arms are: bc; grpo"),
        (["grpo0", "--decoding", "beam"], "choose sampled or greedy"),
        (["grpo0", "--no-browser"], "add --view"),
        (["grpo0", "--latex", "."], ". is a folder; give the name of a file"),
    ],
)
def test_mistakes_are_one_line(folder, arguments, says):
    code, output = command(folder / arguments[0], *arguments[1:])
    assert code == 2
    assert says in output and len(output.strip().splitlines()) == 1


def test_run_against_run(folder):
    code, output = command(folder, "--arms", "run", "--baseline", "grpo0")
    assert code == 0, output
    assert "agentevol1: bc" in output and "Each arm is one run" in output


def test_runs_that_differ_in_their_panels(folder):
    write_run(folder / "x", seed=5, stages={"grpo": 0.2}, digests={"toy/new": "else"})
    code, output = command(folder)
    assert code == 2 and "differ in the tasks of panel new of toy" in output


def test_a_run_that_goes_on_is_compared(folder):
    unfinish(folder / "grpo1", "grpo")
    with (folder / "grpo1" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "sta')
    before = sorted((path.name, path.stat().st_mtime_ns) for path in (folder / "grpo1").iterdir())
    code, output = command(folder, "--html", folder.parent / "a.html")
    assert code == 0 and "not finished, in grpo: " in output
    page = (folder.parent / "a.html").read_text()
    assert "; 1 of 4 runs not finished" in page and "<td>in grpo</td>" in page
    assert sorted((path.name, path.stat().st_mtime_ns) for path in (folder / "grpo1").iterdir()) == before


def test_seeds_of_an_arm_are_those_that_ended_it(folder):
    def seeds():
        lines = [line.replace("│", " ").split() for line in command(folder)[1].splitlines()]
        return next(line for line in lines if line[:1] == ["grpo"])

    assert seeds()[1:6] == ["grpo0,", "grpo1", "0,", "1", "35.0"]
    unfinish(folder / "grpo1", "grpo")
    assert seeds()[1:5] == ["grpo0,", "grpo1", "0", "30.0"]
