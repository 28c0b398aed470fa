"""Every command of README, docs and examples is run as it stands.

What trains is composed and checked as ``train`` does before it starts Ray (``--show``); ``engine/test_front_door.py``
lets the engine run those of README. A server is opened and closed again. What needs an API, a hub, another's server or
another's files is listed in ``ELSEWHERE``; of these ``test_docs.py`` checks that command and options exist.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from documented import OURS
from typer.testing import CliRunner, Result

from agentgym_rl.cli import app
from agentgym_rl.data import episode_store
from agentgym_rl.rollout.playbook import Lesson, Playbook

sys.path.insert(0, str(Path(__file__).parent / "eval"))

from made_runs import write_run
from test_learning import metrics
from viewer_episodes import made

pytest.importorskip("verl")

ELSEWHERE = {
    "an API": r"policy[ =]openai:|--model openai:",
    "another's server": r"--address|HOST",
    "a model's weights": r"policy[ =](runs/|\./|smollm2)|^agentgym-rl (fetch|gateway (?!--help)|export (?!evals))",
    "the hub": r"templates Qwen|tasks .*AgentGym/",
    "another's files": r"textcraft_train|data=|-o sites=|lmrlgym|executer_logs|evaluated/|pairs\.json --env"
    r"|collect mcp",
    "W&B": r"^agentgym-rl sync",
    "Chromium": r"play (miniwob|webarena)_",
    "a package of the reader's": r"check echo",
    "a client that speaks first": r"--protocol mcp",
    "GPUs": r"^agentgym-rl reproduce \w+\S* seed=(?!.*--show)",
}
"""What a command needs that a test has not, and how to tell."""
SHAPE = re.compile(r"[A-Z]{2,}\b|<\w+>|/shared/runs|evals/A|[= ]-?m?=?$|--install-completion|^agentgym-rl \w+$")
"""A gap to be filled in, or the name of a command alone."""

LINES = sorted({shlex.join(words) for _, words in OURS})
TRAIN = [line for line in LINES if line.startswith("agentgym-rl train ") and not re.search(r"NAME|VALUE|-m$", line)]
RUN = ["agentgym-rl envs", *(
    line for line in LINES
    if not line.startswith("agentgym-rl train") and not SHAPE.search(line.replace("FOLDER.parquet", ""))
    and not any(re.search(sign, line) for sign in ELSEWHERE.values())
)]  # fmt: skip


def run(line: str, show: bool = False) -> Result:
    """A line as a shell reads it, in this process; nobody types anything."""
    words = shlex.split(os.path.expandvars(line))[1:]
    shown = ["--show"] if show and "--show" not in words else []
    return CliRunner().invoke(app, [*words, *shown], prog_name="agentgym-rl")


def test_what_is_not_run_is_not_much_and_there():
    for what, sign in ELSEWHERE.items():
        assert any(re.search(sign, line) for line in LINES), f"no command needs {what} any more"
    assert len(TRAIN) > 60 and len(RUN) > 70


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages' commands speak of: runs, evaluations, a playbook, tasks, trajectories, a model."""
    place = tmp_path_factory.mktemp("world")
    for name in ("agentevol", "grpo"):
        for seed in (0, 1):
            folder = place / "runs" / f"demo-{name}-seed{seed}"
            stages = {"bc": 0.3, name: 0.5 + seed / 10}
            write_run(
                folder,
                algorithm=name,
                seed=seed,
                stages=stages,
                metrics=metrics([0.3, 0.4, 0.5]) if name == "grpo" else (),
            )
            for step in (2, 31):
                tried = [(task, success) for task in range(4) for success in (True, False)]
                episodes = [made(task, env="textcraft", success=success, step=step) for task, success in tried]
                episode_store.write(folder / "episodes" / f"step{step:06d}.parquet", episodes)
    shutil.copy(folder / "episodes/step000031.parquet", place / "tried.parquet")
    (place / "examples").mkdir()
    shutil.copy(Path(__file__).parents[1] / "examples/gateway_agent.py", place / "examples")
    (place / "runs/smoke-grpo-seed0").symlink_to("demo-grpo-seed0")
    (place / "runs/verl-agent-alfworld-gigpo-seed0").symlink_to("demo-grpo-seed0")
    (place / "runs/inspo-smollm2-inspo-seed0").symlink_to("demo-grpo-seed0")
    (place / "texts.toml").write_text("textcraft = ['', 'Look first.']\n")
    Playbook(lessons=[Lesson(id=1, env="textcraft", text="Look first.", born=1, changed=1)], next_id=2).write(
        place / "playbook.json"
    )
    answer = {"split": "test", "check": {"answer": "4"}, "plan": [["finish", {"answer": "4"}]]}
    (place / "tasks.jsonl").write_text(json.dumps({"instruction": "How much is 2 + 2?", **answer}) + "\n")
    for model in ("model", "my-model"):
        (place / model).mkdir()
        facts = {"model_type": "qwen2", "max_position_embeddings": 32768, "architectures": ["Qwen2ForCausalLM"]}
        (place / model / "config.json").write_text(json.dumps(facts))
        for file in ("tokenizer.json", "model.safetensors"):
            (place / model / file).touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for file in ("demonstrations.json", "mine.json", "AgentTraj.json"):
            assert run(f"agentgym-rl collect textcraft --n 3 --out made/{file}").exit_code == 0
            os.rename(f"made/{file}", file)
        for evaluation in ("oracle", "with", "without"):
            line = f"agentgym-rl eval panel=textcraft:test:3 policy=oracle out=evals/{evaluation}"
            assert run(line).exit_code == 0
    return place


@pytest.fixture
def here(world: Path, files_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy of the world, as the current folder."""
    shutil.copytree(world, tmp_path / "world", symlinks=True)
    monkeypatch.chdir(tmp_path / "world")
    return tmp_path / "world"


def write_files(line: str) -> None:
    """The files of one's own that a line names, as the lines before it on the page write them."""
    for kind, file in (("env", "house"), ("algorithm", "last_turn")):
        if f"./{file}.py" in line:
            assert run(f"agentgym-rl new {kind} {file}").exit_code == 0


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers end as soon as they would listen, as with Ctrl-C."""
    from agentgym_rl.envs.protocol import server
    from agentgym_rl.eval.viewer.server import Viewer

    monkeypatch.setattr(server, "serve", lambda *_: None)
    monkeypatch.setattr(Viewer, "serve_forever", lambda _: None)
    monkeypatch.setattr("webbrowser.open", lambda _: True)


MARKS = {
    r"^agentgym-rl check": [pytest.mark.e2e, pytest.mark.timeout(600)],  # new processes, all tasks
    r"sciworld": [pytest.mark.java],
}
FIRST = {shlex.join(words) for path, words in OURS if path.name == "README.md" and "-m" not in words}
"""What a reader meets first; the commands of the other pages are a sweep."""


def marks(line: str) -> list[pytest.MarkDecorator]:
    own = [mark for sign, found in MARKS.items() if re.search(sign, line) for mark in found]
    return own + [pytest.mark.slow] * (line not in FIRST)


@pytest.mark.parametrize("line", [pytest.param(line, marks=marks(line)) for line in TRAIN])
def test_what_trains_composes_and_is_checked(line, here, example_packages):
    write_files(line)
    result = run(line, show=True)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("line", [pytest.param(line, marks=marks(line)) for line in RUN])
def test_a_command_runs(line, here, stopped, example_packages):
    write_files(line)
    if written := re.search(r" out=(\S+)", line):
        shutil.rmtree(here / written[1], ignore_errors=True)
    if "--episodes view" in line:
        assert run("agentgym-rl view runs/demo-grpo-seed0 --html view/demo-grpo-seed0").exit_code == 0
    result = run(line)
    nobody_plays = line.startswith("agentgym-rl play") and "--policy" not in line
    assert result.exit_code == (1 if nobody_plays else 0), result.output
