"""``train -m`` as a person uses it; the runs themselves are played by a stand-in."""

import json
from pathlib import Path

import pytest
from sweep import thinned

pytest.importorskip("verl")

from typer.testing import CliRunner

from agentgym_rl.cli import app, multirun
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.run.folder import Interrupted, RunFolder, State
from agentgym_rl.engine.verl.launch import LaunchFailed


class Runs:
    """Finishes jobs, or does to a job what it is told."""

    def __init__(self):
        self.started, self.troubles = [], {}

    def __call__(self, job, console, session):
        config = job.config
        self.started.append(config.name)
        folder = RunFolder(Path(config.run.dir), recipes.identity(config), config.run.resume, recipes.to_yaml(config))
        folder.save_state(State(stage=1))
        if config.name in self.troubles:
            raise self.troubles[config.name]
        score = {"success": 0.2 + config.seed / 10, "ci95": [0.1, 0.4], "n": 10, "tasks": 10}
        panels = {"test": {"counter": {"sampled": score, "greedy": score}}}
        stage = {"name": config.algorithm.name, "panels": panels, "episodes": 8, "steps": 1, "wall_s": 6.0}
        folder.write_summary({"name": config.name, "algorithm": config.algorithm.name, "seed": config.seed,
                              "stages": [stage], "panels": {"counter": {"test": "digest"}}})  # fmt: skip
        return folder.path


@pytest.fixture
def runs(toy_recipes, monkeypatch):
    recorder = Runs()
    monkeypatch.setattr(multirun, "run_job", recorder)
    return recorder


@pytest.fixture
def overrides(toy_recipes):
    return ["experiment=counter", f"run.dir={toy_recipes}/${{name}}", "name=n${seed}", "seed=0,1,2"]


def command(*arguments):
    result = CliRunner().invoke(app, ["train", *arguments], env={"COLUMNS": "150"})
    return result.exit_code, result.output


@pytest.mark.slow
def test_jobs_one_after_the_other_then_their_comparison(runs, overrides, toy_recipes):
    code, output = command("-m", *overrides)
    assert code == 0, output
    assert runs.started == ["n0", "n1", "n2"]
    heads = [line for line in output.splitlines() if line.startswith("job ")]
    assert [line for line in heads if "finished" not in line] == [f"job {n + 1}/3: seed={n}" for n in range(3)]
    assert "job 2/3: seed=1: finished in 0.0 min" in output
    assert "30.0 [0, 61]" in output  # 20, 30, 40 on 10 tasks: 1.98 * sqrt(10**2 / 3 + 30 * 70 / 10)
    assert f"agentgym-rl compare {toy_recipes}/n0" in output
    code, output = command("-m", *overrides)
    assert code == 0 and runs.started == ["n0", "n1", "n2"], "finished jobs are not run again"
    assert "job 1/3: seed=0: finished before" in output and "30.0 [0, 61]" in output


def test_show_lists_jobs_and_starts_none(runs, overrides, toy_recipes):
    code, output = command("--multirun", "--show", *overrides)
    assert code == 0 and runs.started == [] and not toy_recipes.exists()
    assert "3 jobs" in output and output.count("new") == 3 and "seed=2" in output


@pytest.mark.slow
def test_a_failing_job_is_reported_and_the_others_go_on(runs, overrides):
    runs.troubles = {"n1": LaunchFailed("no such weights")}
    code, output = command("-m", *overrides)
    assert code == 1 and runs.started == ["n0", "n1", "n2"]
    assert "job 2 failed (seed=1): LaunchFailed: no such weights" in output
    assert "1 of 3 jobs failed; the same command runs them again: agentgym-rl train -m experiment=counter" in output
    assert "30.0 [" in output, "the finished ones are compared"
    runs.troubles, runs.started = {}, []
    code, output = command("-m", *overrides)
    assert code == 0 and runs.started == ["n1"]


@pytest.mark.parametrize(
    ("error", "says"), thinned([(Interrupted(), "saved in job 2 of 3"), (KeyboardInterrupt(), "stopped at once")], 2)
)
def test_ctrl_c_ends_all_and_says_how_to_go_on(runs, overrides, error, says):
    runs.troubles = {"n1": error}
    code, output = command("-m", *overrides)
    assert code == 130 and runs.started == ["n0", "n1"]
    assert says in output and "the same command resumes: agentgym-rl train -m experiment=counter" in output
    assert "'name=n${seed}'" in output, "quoted as a shell needs it"
    assert command("-m", "--show", *overrides)[1].count("interrupted") == 1


@pytest.mark.slow
def test_jobs_on_different_panels_are_run_and_not_compared(runs, overrides, monkeypatch):
    write_summary = RunFolder.write_summary

    def other_digest(self, summary):
        write_summary(self, json.loads(json.dumps(summary).replace('"digest"', f'"d{summary["seed"]}"')))

    monkeypatch.setattr(RunFolder, "write_summary", other_digest)
    code, output = command("-m", *overrides)
    assert code == 0 and "not compared: " in output and "differ in the tasks of panel test of counter" in output


def test_mistakes_stop_everything_before_it_starts(runs, overrides):
    code, output = command("-m", *overrides, "algorithm.mini_batch_tasks=4,0")
    assert code == 2 and runs.started == []
    assert "job 2 of 6 (seed=0 algorithm.mini_batch_tasks=0): algorithm.mini_batch_tasks must be at least 1" in output


def test_commas_without_m_suggest_it(toy_recipes):
    code, output = command("experiment=counter", "seed=1,2")
    assert code == 2 and "`train -m` runs one after the other" in output


def test_help_has_an_example():
    output = command("--help")[1]
    assert "agentgym-rl train -m experiment=demo algorithm=agentevol,grpo seed=0,1,2" in output
