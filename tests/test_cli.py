"""The command line, as a person and as a program use it."""

import io
import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import pytest
import rich.console
import toy
import typer
from typer.testing import CliRunner

from agentgym_rl import cli
from agentgym_rl.cli import app, common
from agentgym_rl.cli.envs import _said, _type
from agentgym_rl.data import agenttraj
from agentgym_rl.data.files import alone
from agentgym_rl.envs import progress
from agentgym_rl.envs.core import EnvUnavailable, Observation, Step
from agentgym_rl.envs.registry import env_class, read_points

pytestmark = pytest.mark.usefixtures("toys")


def run(*arguments, typed=None):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=typed, env={"COLUMNS": "150"})


def test_help_shows_every_command_under_a_heading_with_an_example():
    text = run("--help").stdout
    modules = {path.stem for path in Path(cli.__file__).parent.glob("*.py") if "\ndef command(" in path.read_text()}
    assert {name for group in cli.GROUPS.values() for name in group} == modules
    assert all(heading in text for heading in cli.GROUPS)
    assert "Example: agentgym-rl fetch smollm2_135m" in run("fetch", "--help").stdout


@pytest.mark.parametrize(
    ("asked", "paragraph"),
    [
        ("", "Write tasks for an environment that has none: .* how they are explored."),
        ("explore", "Write tasks for an environment that has none: .* how they are explored."),
        ("train", "Recipes are groups of settings .* before anything starts."),
        ("train", "agentgym-rl train -m [^S]* seed=0,1,2"),
    ],
)
def test_the_terminal_alone_wraps_help(asked, paragraph):
    shown = CliRunner().invoke(app, [*asked.split(), "--help"], env={"COLUMNS": "600"}).stdout
    assert any(re.search(paragraph, line) for line in shown.splitlines())


@pytest.mark.parametrize("example", [command for group in cli.GROUPS.values() for command in group.values()])
def test_examples_can_be_pasted(example, monkeypatch):
    """Each is read whole: arguments and options exist and have values of their kinds."""
    name, *words = shlex.split(example)[1:]
    typer.main.get_command(app).commands[name].make_context(name, words)


def test_python_runs_the_package(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["agentgym_rl", "--version"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("agentgym_rl", run_name="__main__")
    assert run("--version").stdout == capsys.readouterr().out


@pytest.mark.parametrize("command", ["envs", "tasks", "play"])
def test_an_example_names_what_there_is(command):
    words = shlex.split(cli.GROUPS["Environments"][command])[1:]
    assert run(*words, typed="quit\n").exit_code in (0, 1)  # 1: play, not solved


def test_errors_of_the_operating_system_are_sentences(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("collect", "counter", "--policy", "oracle", "--out", tmp_path / "file" / "below.json")
    assert result.exit_code == 2 and "Errno" not in result.stderr
    assert f"{tmp_path / 'file'}: " in result.stderr


def completed(typed):
    variables = {"_AGENTGYM_RL_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    return CliRunner().invoke(app, [], prog_name="agentgym-rl", env=variables).stdout.split()


@pytest.mark.parametrize(("typed", "word"), [("agentgym-rl wat", "watch"), ("agentgym-rl tasks cou", "counter")])
def test_a_shell_completes_commands_and_environments(typed, word):
    assert completed(typed) == [word]


def test_envs_lists_worlds_and_what_they_lack():
    result = run("envs")
    assert result.exit_code == 0
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    assert rows["counter"].split()[1:4] == ["40", "10", "0"] and "official tasks" in rows["name"]
    assert "300,000" in result.stdout and "a_package_nobody_has" in rows["needy:"]
    assert "Nothing" in result.stdout  # the plug-in that is broken


@pytest.mark.parametrize("asked", ["envs", "tasks counter", "check counter --n 1", "reproduce --list"])
def test_tables_lose_nothing_in_a_narrow_terminal(asked, monkeypatch):
    class Narrow(rich.console.Console):
        def __init__(self, **settings):
            super().__init__(**settings | {"width": 60})

    wide = run(*asked.split())
    monkeypatch.setattr(rich.console, "Console", Narrow)
    narrow = run(*asked.split())
    assert narrow.exit_code == wide.exit_code == 0 and "…" not in narrow.stdout
    assert len(narrow.stdout.splitlines()) > len(wide.stdout.splitlines()) or asked == "tasks counter"


def test_envs_says_all_about_one():
    shown = run("envs", "maze").stdout
    for said in (
        "train 480, test 120",
        "The maze of LMRL-Gym",
        "layouts of this family only (str)",
        "agentgym, compact",
    ):
        assert said in shown
    assert "verl_agent" not in shown, "a style that it has not"
    facts = json.loads(run("envs", "textcraft", "--json").stdout)
    assert facts["options"]["wording"] == {
        "type": "own or agentgym-exact",
        "default": "own",
        "meaning": "agentgym-exact answers to the letter of AgentGym's server.",
    }
    assert facts["options"]["recipes"]["type"] == "str | Path" and facts["splits"]["test"] == 100
    ours = [name for name, point in read_points().items() if point.value.startswith("agentgym_rl.")]
    options = {(name, option): about for name in ours for option, about in _said(env_class(name))["options"].items()}
    assert len(ours) == 19 and not [option for option, about in options.items() if not about["meaning"]]
    assert _type(Literal[3, 5]) == "3 or 5"
    unknown = run("envs", "textcarft")
    assert unknown.exit_code == 2 and "unknown environment 'textcarft'" in unknown.stderr


def test_a_world_that_cannot_be_made_hides_no_other(monkeypatch):
    def crash(self):
        raise RuntimeError("no Java")

    monkeypatch.setattr(toy.Counter, "spec", property(crash))
    listed = {row["name"]: row for row in json.loads(run("envs", "--json").stdout)}
    assert listed["counter"] == {"name": "counter", "error": "no Java"} and "splits" in listed["maze"]


def test_tasks_as_json():
    result = run("tasks", "counter", "--n", 3, "--difficulty", "length 1", "--json")
    listing = json.loads(result.stdout)
    assert (listing["split"], listing["split_size"], len(listing["digest"])) == ("test", 10, 12)
    assert listing["tasks"][0] == {"item_id": "counter_42", "difficulty": "length 1", "goal": "count to 1"}
    assert len(listing["tasks"]) == 3


def test_tasks_as_a_table():
    result = run("tasks", "counter")
    assert "counter_49" in result.stdout and "count to 2" in result.stdout
    assert "10 of 10 tasks in counter test; digest" in result.stdout


def test_goals_of_many_tasks_are_computed_on_request_only(monkeypatch):
    monkeypatch.setattr("agentgym_rl.cli.tasks.MANY", 5)
    toy.Vast.goals = 0
    listing = json.loads(run("tasks", "vast", "--json").stdout)
    assert (listing["digest"], toy.Vast.goals, "goal" in listing["tasks"][0]) == (None, 0, False)
    listing = json.loads(run("tasks", "vast", "--json", "--goals").stdout)
    assert len(listing["digest"]) == 12 and "goal" in listing["tasks"][0]


def test_play_from_a_pipe_prints_json_steps():
    result = run("play", "counter_1", "--json", typed="dance\nsay 1\nsay 2\nsay 3\n")
    assert result.exit_code == 0
    steps = [json.loads(line) for line in result.stdout.splitlines()]
    assert [step["turn"] for step in steps] == [0, 1, 2, 3]
    assert steps[0]["observation"] == "Count to 2." and steps[0]["action"] is None
    assert steps[1]["info"] == {"invalid": True}
    assert steps[-1] == {
        "item_id": "counter_1",
        "turn": 3,
        "action": "say 2",
        "observation": "Done.",
        "reward": 1.0,
        "terminated": True,
        "truncated": False,
        "info": {},
    }


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("", "left after 0 turns, reward 0"),
        ("say 1\n", "left after 1 turns"),
        ("say 9\n", "over after 1 turns"),
        ("say 1\nquit\n", "left after 1 turns"),
        ("look\n" * 6, "no turns left after 5 turns"),
    ],
)
def test_play_exits_1_when_the_task_is_not_solved(typed, says):
    result = run("play", "counter_1", typed=typed)
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert f"not solved, {says}" in result.stdout
    script = run("play", "counter_1", "--json", typed=typed)
    assert (script.exit_code, type(script.exception)) == (1, SystemExit)


def test_play_tells_when_the_environment_stopped(monkeypatch):
    async def closing(self, action):
        return Step(Observation("The hall closes."), 0.0, False, truncated=True)

    monkeypatch.setattr(toy.Counter, "step", closing)
    assert "stopped by the environment after 1 turns" in run("play", "counter_1", typed="say 1\n").stdout


def test_play_for_a_person():
    result = run("play", "counter_1", typed="?\nhint\nsay 1\nhint\ndance\nhint\nsay 2\n")
    assert result.exit_code == 0
    for text in (
        "Count up",
        "Count to 2.",
        "1> ?",
        "say 3",
        "I do not understand.",
        "another way",
        "solved, over after 3",
    ):
        assert text in result.stdout
    assert "OK. I'll follow" not in result.stdout


def test_play_ends_with_the_first_ctrl_c():
    words = [sys.executable, "-m", "agentgym_rl.cli", "play", "counter_1", "--json"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as playing:
        assert playing.stdout is not None and b"Count to 2." in playing.stdout.readline()
        time.sleep(1)  # it waits for a line
        playing.send_signal(signal.SIGINT)
        try:
            assert playing.wait(60) == 130
        finally:
            playing.kill()


def test_play_ends_when_nobody_reads_on():
    words = [sys.executable, "-m", "agentgym_rl.cli", "play", "counter_1", "--policy", "oracle", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as playing:
        assert playing.stdout is not None and playing.stderr is not None
        playing.stdout.close()
        assert (playing.stderr.read(), playing.wait()) == (b"", 1)


def test_play_reads_whole_replies_when_asked():
    replies = "Thought: up. Action: say 1.\nAction: say 2!\n"
    assert run("play", "counter_1", "--action-format", "react", typed=replies).exit_code == 0
    assert run("play", "counter_1", typed=replies).exit_code == 1


def test_play_reads_tags_when_asked():
    replies = "<think>One.</think> <action>say 1</action>\n<think>Two.</think> <action>say 2</action>\n"
    assert run("play", "counter_1", "--action-format", "tags", typed=replies).exit_code == 0


def test_play_shows_what_a_policy_does():
    result = run("play", "counter_1", "--policy", "oracle")
    assert result.exit_code == 0
    for text in ("1> say 1", "2> say 2", "Right.", "Done.", "solved, over after 2 turns"):
        assert text in result.stdout
    lines = run("play", "counter_1", "--policy", "random", "--seed", 3, "--json").stdout.splitlines()
    assert json.loads(lines[0])["action"] is None and json.loads(lines[1])["action"].startswith("say")
    assert "not solved, left after 0 turns" in run("play", "plain_1", "--policy", "oracle").stdout


def test_play_shows_nothing_before_a_policy_is_refused():
    assert run("play", "counter_1", "--policy", "openai:x").stdout == ""


def test_play_in_the_wording_of_verl_agent():
    result = run("play", "alfworld_10000", "--policy", "oracle", "--style", "verl_agent", "--json")
    assert result.exit_code == 0, result.output


def test_play_counts_from_the_start_when_an_episode_runs_again(monkeypatch):
    step, calls = toy.Counter.step, []

    async def failing(self, action):
        calls.append(action)
        if len(calls) == 2:
            raise EnvUnavailable("gone")
        return await step(self, action)

    monkeypatch.setattr(toy.Counter, "step", failing)
    result = run("play", "counter_1", "--policy", "oracle", "--json")
    assert [json.loads(line)["turn"] for line in result.stdout.splitlines()] == [0, 1, 0, 1, 2]
    calls.clear()
    assert run("play", "counter_1", "--policy", "oracle").stdout.count("1> say 1") == 2


def test_goals_in_brackets_are_shown_as_they_are(monkeypatch):
    monkeypatch.setattr(toy.Counter, "goal", lambda self, task: "[bold]count :100: [/i]")
    assert "[bold]count :100: [/i]" in run("play", "counter_1", typed="quit\n").stdout
    assert "[bold]count :100: [/i]" in run("tasks", "counter", "--n", 1).stdout


def test_a_text_is_said_as_it_is(capsys):
    common.say(common.console(), "runs/12:100:7/[b]")
    assert capsys.readouterr().out == "runs/12:100:7/[b]\n"


def test_a_name_that_is_no_text_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"x\xff.json")
    Path(name).write_text('[{"item_id": "counter_1"}]')
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    monkeypatch.setattr(sys, "argv", ["agentgym-rl", "tasks", "counter", "--split", name, "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0 and json.loads(sys.stdout.buffer.getvalue())["split"] == name


def test_play_stops_at_the_turn_limit():
    result = run("play", "counter_1", "--max-turns", 2, typed="look\nlook\nsay 1\nsay 2\n")
    assert result.exit_code == 1
    assert "no turns left after 2 turns" in result.stdout


def test_a_check_ends_at_once(monkeypatch):
    asked = []

    def goal(self, task):
        asked.append(task)
        if len(asked) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return "count"

    monkeypatch.setattr(toy.Counter, "goal", goal)
    assert run("check", "counter", "--all").exit_code == 130
    assert len(asked) == 1


@pytest.mark.slow
def test_check_passes_and_fails():
    result = run("check", "counter", "--n", 2, "--style", "compact")
    assert result.exit_code == 0, result.output
    assert "oracle solves" in result.stdout and "FAIL" not in result.stdout
    result = run("check", "generous", "--split", "test", "--all")
    assert result.exit_code == 1
    assert "FAIL" in result.stdout and "[0, 1]" in result.stdout and "generous_40" in result.stdout
    assert "10 tasks of test" in result.stdout


def test_collect_writes_and_sums_up(tmp_path):
    out = tmp_path / "train.json"
    result = run("collect", "counter", "--out", out, "--n", 5, "--option", "hurry=true")
    assert result.exit_code == 0, result.output
    assert "5 trajectories from 5 episodes (5 solved)" in result.stdout
    assert len(agenttraj.read(out)) == 5


def test_collect_without_a_trajectory_fails(tmp_path):
    result = run("collect", "plain", "--out", tmp_path / "a.json")
    assert result.exit_code == 2
    assert "none of 40 episodes is kept: 0 solved (40 no solution); plain has no oracle" in result.output


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("collect counter --out a.json --n 3", "counter train: 3 of 3"),
        ("eval panel=counter:test:2 policy=oracle out=evals", "evaluating: 2 of 2"),
        ("check counter --n 2", "checking counter, done: 100 of 100"),
    ],
)
def test_a_log_has_progress_in_lines(asked, says, tmp_path, monkeypatch):
    """Now and then: work of seconds has none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "LINE_S", 0.0)
    result = run(*asked.split())
    assert re.fullmatch(rf"  0:0\d {says} for \d s", result.stderr.splitlines()[-1]), result.output
    monkeypatch.setattr(progress, "LINE_S", 60.0)
    again = run(*asked.replace("a.json", "b.json").replace("evals", "again").split())
    assert (again.exit_code, again.stderr) == (result.exit_code, "")


def test_collect_interrupted_says_how_to_go_on(tmp_path, monkeypatch):
    async def interrupted(self, task):
        raise KeyboardInterrupt

    monkeypatch.setattr(toy.Counter, "reset", interrupted)
    result = run("collect", "counter", "--out", tmp_path / "a.json")
    assert result.exit_code == 130
    assert "same command goes on" in result.stderr
    assert [path.name for path in tmp_path.glob("a*")] == ["a.json.partial.jsonl"]


@pytest.mark.parametrize(
    "command", [["collect", "counter"], ["expand", "counter", "--model", "openai:m@http://127.0.0.1:1/v1"]]
)
def test_two_processes_cannot_write_one_file(command, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    with alone(tmp_path, "a.json"):
        result = run(*command, "--out", tmp_path / "a.json")
    assert result.exit_code == 2 and "another process writes" in result.output, result.output
    assert not (tmp_path / "a.json.partial.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tasks", "countre"], "unknown environment 'countre'"),
        (["tasks", "needy"], "No module named 'a_package_nobody_has'"),
        (["tasks", "counter", "--split", "dev"], "no split 'dev'; its splits: train, test"),
        (["tasks", "counter", "--n", "99"], "n is 99, but counter test has only 10 tasks"),
        (["tasks", "counter", "-o", "speed=1"], "counter has no option 'speed'; its options: style, hurry"),
        (["tasks", "counter", "-o", "speed"], "'speed' is not KEY=VALUE"),
        (["play", "counter"], "'counter' is not an item id"),
        (["play", "counter_99"], "counter_99 is outside 0..49"),
        (["play", "counter_1", "--style", "loud"], "style 'loud' is unknown"),
        (["check", "counter", "--n", "0"], "n is 0"),
        (["check", "counter", "--n", "5", "--all"], "--all tries every task; leave --n out"),
        (["collect", "counter", "--out", "x.json", "--policy", "expert"], "policy 'expert' is unknown"),
        (["collect", "counter", "--out", "x.json", "--policy", "runs/nothing:bc"], "'runs/nothing:bc' does not exist"),
        (["collect", "counter", "--out", "x.json", "--policy", "./nothing"], "policy './nothing' does not exist"),
        (["collect", "counter", "--out", "x.json", "--policy", "human"], "policy 'human' is for"),
        (["play", "counter_1", "--policy", "./nothing"], "policy './nothing' does not exist"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(arguments, says):
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == "" or arguments[0] == "play"


def test_a_world_that_fails_is_one_line_and_exit_status_2(monkeypatch):
    async def dead(self, action):
        raise EnvUnavailable("the server is gone")

    monkeypatch.setattr(toy.Counter, "step", dead)
    result = run("play", "counter_1", "--json", typed="say 1\n")
    assert (result.exit_code, result.stderr) == (2, "Error: the server is gone\n")


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("AGENTGYM_RL_DEBUG", "1")
    assert isinstance(run("tasks", "counter", "--split", "dev").exception, ValueError)


def test_real_process_pipes_and_starts_without_heavy_imports():
    played = subprocess.run(
        [sys.executable, "-m", "agentgym_rl.cli", "play", "counter_0", "--json"],
        input="say 1\n",
        capture_output=True,
        text=True,
    )
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout.splitlines()[-1])["reward"] == 1.0
    refused = subprocess.run(
        [sys.executable, "-m", "agentgym_rl.cli", "tasks", "countre"], capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    loaded = "import sys, agentgym_rl.cli; print(sorted({'torch', 'verl', 'numpy', 'rich.table'} & set(sys.modules)))"
    listed = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert "torch" not in listed.stdout and "verl" not in listed.stdout and "numpy" not in listed.stdout


def test_version_and_help():
    assert run("--version").stdout.strip()
    assert "collect" in run("--help").stdout


def test_a_shell_completes_runs(tmp_path, monkeypatch):
    (tmp_path / "runs" / "one").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert completed("agentgym-rl watch runs/o") == ["runs/one"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["resume", "runs/x"], "the command that began a run resumes it"),
        (["train", "experiment=smoke", "--algorithm", "grpo"], "write it as a key: algorithm=VALUE"),
        (["eval", "--panel=counter:test"], "write it as a key: panel=VALUE"),
        (["eval", "panel=counter:test", "policy=runs/nope"], "policy 'runs/nope' does not exist"),
        (["collect", "counter", "--out", "x.json", "--policy", "openai:m@http://h", "--samples", 2], "same episode"),
    ],
)
def test_what_others_write_gets_the_right_spelling(words, says):
    result = run(*words)
    assert result.exit_code == 2 and says in result.stderr.replace("\n", ""), result.output


def test_another_configuration_than_the_jobs_gets_the_right_spelling():
    pytest.importorskip("hydra")
    result = run("train", "experiment=smoke", "--cfg", "hydra")
    assert result.exit_code == 2 and "write --cfg job" in result.stderr.replace("\n", ""), result.output


def test_a_misspelt_option_is_typers_to_name():
    result = run("train", "experiment=smoke", "--recipe", "x")
    assert result.exit_code == 2 and "--recipes" in result.stderr


@pytest.mark.slow
def test_machines_read_json(tmp_path):
    """What --json prints is JSON and nothing else, and says what the tables say."""
    envs = {env["name"]: env for env in json.loads(run("envs", "--json").stdout)}
    assert envs["counter"]["splits"]["train"] == 40 and "a_package_nobody_has" in envs["needy"]["error"]
    checked = json.loads(run("check", "counter", "--n", 2, "--json").stdout)
    assert checked["passed"] and {finding["name"] for finding in checked["findings"]} >= {"spec is sane"}
    collected = json.loads(run("collect", "counter", "--out", tmp_path / "a.json", "--n", 3, "--json").stdout)
    assert collected["kept"] == 3 and collected["out"] == str(tmp_path / "a.json")
    scores = []
    for policy in ("oracle", "random"):
        words = ["eval", "panel=counter:test", f"policy={policy}", f"out={tmp_path / policy}", "--json"]
        found = json.loads(run(*words).stdout)
        assert found["plan"]["policy"] == policy and Path(found["out"]) == tmp_path / policy
        scores.append(found["envs"]["counter"])
    assert scores[0] != scores[1]
    compared = json.loads(run("eval", "--compare", tmp_path / "oracle", tmp_path / "random", "--json").stdout)
    assert compared["differences"]
