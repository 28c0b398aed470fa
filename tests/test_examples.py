"""The examples do what their docstrings say, as a stranger runs them."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PACKAGES = ("add_a_world", "add_an_algorithm")
CLI = "-m", "agentgym_rl.cli"


def run(place: Path, *arguments: str | Path, check: bool = True) -> str:
    """What a Python program prints, run in ``place``."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=500)
    if check:
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the two example packages."""
    folder = tmp_path_factory.mktemp("examples") / "site"
    offline = "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"
    run(EXAMPLES, "-m", "pip", "install", "-q", "--target", folder, *offline, *(EXAMPLES / name for name in PACKAGES))
    return folder


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example packages are there, for this process's children."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])))


@pytest.mark.parametrize("file", ["add_a_world/guess.py", "add_an_algorithm/reinforce_rej.py"])
def test_forty_lines_are_enough(file):
    text = EXAMPLES.joinpath(file).read_text()
    docstring = ast.parse(text).body[0]
    rest = text.splitlines()[docstring.end_lineno :]
    assert len([line for line in rest if line.strip()]) <= 40


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_a_docstring_says_how_to_run_it(file):
    said = ast.get_docstring(ast.parse(file.read_text()))
    assert f"examples/{file.parent.name}" in said or f"python examples/{file.name}" in said


def test_the_world_keeps_the_contract(installed, tmp_path):
    said = run(tmp_path, *CLI, "check", "guess")
    assert "tasks solved" in said and "FAIL" not in said


def test_the_algorithm_is_known_to_recipes(installed, tmp_path):
    pytest.importorskip("verl")
    overrides = "experiment=smoke", "algorithm=grpo", "algorithm.name=reinforce_rej", "algorithm.samples=1"
    refused = run(tmp_path, *CLI, "train", *overrides, check=False)
    assert "algorithm=reinforce_rej compares episodes of a task" in refused


def test_advantages_leave_out_what_fills_up_the_batch(site, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(site)
    from reinforce_rej import REINFORCE_REJ

    from agentgym_rl.algorithms.installed import estimator

    mask = torch.tensor([[1, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1], [1, 0, 0]])
    rewards = torch.tensor([[0, 0, 1.0], [0, 0, 0], [0, 0, 0], [0, 0, 0.5], [1, 0, 0]])
    estimate = estimator(REINFORCE_REJ.advantages)
    advantages, returns = estimate(token_level_rewards=rewards, response_mask=mask, index=list("aaabb"), config=None)
    assert advantages.tolist() == [[1, 0, 1], [-1, -1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert returns.tolist() == advantages.tolist()


@pytest.mark.parametrize(
    ("name", "fault"),
    [("other", "must be an Algorithm with name='other'"), ("grpo", "already"), ("bare", "needs an estimator")],
)
def test_a_wrong_entry_point_is_named(tmp_path, monkeypatch, name, fault):
    from agentgym_rl.algorithms.installed import installed as found

    info = tmp_path / "wrong-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: wrong\nVersion: 1.0\n")
    info.joinpath("entry_points.txt").write_text(f"[agentgym_rl.algorithms]\n{name} = wrong:{name.upper()}\n")
    tmp_path.joinpath("wrong.py").write_text(
        "from agentgym_rl.algorithms import Algorithm\n"
        "OTHER = 3\nBARE = Algorithm(name='bare')\nGRPO = Algorithm(name='grpo', estimator='grpo')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wrong", raising=False)
    with pytest.raises(ValueError, match=fault):
        found(["grpo"])


def test_collect_and_read_shows_what_is_learnt(tmp_path):
    said = run(tmp_path, EXAMPLES / "collect_and_read.py")
    assert "5 of 5 tasks solved" in said and "--- assistant (trained on)" in said


def halve(messages):
    """Plays the guessing game by halving, from the conversation alone."""
    low, high = 1, 100
    for said, heard in pairwise(messages):
        if heard["content"] in ("Higher.", "Lower."):
            number = int(said["content"].split()[-1])
            low, high = (number + 1, high) if heard["content"] == "Higher." else (low, number - 1)
    return f"Thought: half of what is left.\nAction: guess {(low + high) // 2}"


def test_an_api_model_is_evaluated(installed, tmp_path, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.syspath_prepend(Path(__file__).parent / "data")
    from chat_server import ChatServer

    async def work(name):
        script = EXAMPLES / "api_model.py"
        return await asyncio.to_thread(run, tmp_path, script, name, "guess", "--n", "6", "--out", "played.json")

    said = asyncio.run(ChatServer(halve).during(work))
    assert "success  6/6, 95% interval 61.0% to 100.0%" in said
    assert len(json.loads(tmp_path.joinpath("played.json").read_text())) == 6


def test_a_served_world_is_played(tmp_path):
    pytest.importorskip("fastapi")
    pytest.importorskip("aiohttp")
    said = run(tmp_path, EXAMPLES / "remote_server.py", "--play-only")
    assert "3 trajectories from 3 episodes (3 solved)" in said


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_the_engine_trains_the_algorithm_on_a_served_world(installed, tmp_path):
    said = run(tmp_path, EXAMPLES / "remote_server.py", "algorithm=grpo", "algorithm.name=reinforce_rej",
               "logger.wandb=offline", "run.evaluate_untrained=false", "run.greedy=false")  # fmt: skip
    assert "reinforce_rej" in said
    rows = [json.loads(line) for line in (tmp_path / "runs/remote/metrics.jsonl").read_text().splitlines()]
    assert len([row for row in rows if "actor/pg_loss" in row]) == 2
