"""Solved episodes of other tasks before the first observation."""

import asyncio
import json

import pytest
import toy
from chat_server import ChatServer
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.data import episode_store
from agentgym_rl.envs import Task
from agentgym_rl.rollout.conversation import Scripted
from agentgym_rl.rollout.exemplars import Exemplars
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.settings import RolloutSettings

pytestmark = pytest.mark.usefixtures("toys")

UNASKED = "openai:m@http://127.0.0.1:9/v1"


class Worded(toy.Counter):
    """Names a colour and a number in its goals; tasks 0 and 5 have the same."""

    def goal(self, task):
        return f"count {['red', 'green', 'blue', 'red', 'grey'][task.index % 5]} things to {self.target(task)} " + (
            "once" if task.index % 5 == 0 else f"at {task.index}"
        )


def played(index, right=True, extra=0):
    """An episode of a task; ``extra`` turns go by first."""
    answers = iter([*["Action: hm"] * extra, *[f"Action: say {number if right else 9}" for number in (1, 2, 3)]])
    episode, _ = asyncio.run(
        run_episode(toy.Counter, Task("counter", index), lambda: Scripted(lambda _: next(answers)), RolloutSettings())
    )
    assert episode.success == right
    return episode


@pytest.fixture
def file(tmp_path):
    episodes = [played(0, extra=1), played(0), played(3), played(1, right=False), played(5), played(9)]
    episode_store.write(tmp_path / "solved.parquet", episodes)
    return tmp_path / "solved.parquet"


def test_the_nearest_come_first(file):
    text = Exemplars.read(file, 2).text(Worded(), Task("counter", 8))
    assert text.startswith(
        "Solved before, of other tasks:\n\nExample 1: count red things to 1 at 3\n\nuser: Count to 1."
    )
    assert "assistant: Action: say 1" in text and text.count("Example ") == 2
    assert "hm" not in text, "the shortest success of a task"
    assert "Count up, one number a turn" not in text, "the instruction stands before it anyway"
    assert Exemplars.read(file, 1).text(Worded(), Task("counter", 8)).count("Example ") == 1


@pytest.mark.parametrize("index", [0, 3, 5, 9])
def test_a_task_never_sees_itself(file, index):
    """Nor one with its goal: tasks 0 and 5 differ in their target, 0 and 15 in nothing."""
    env, task = Worded(), Task("counter", index)
    text = Exemplars.read(file, 9).text(env, task)
    assert env.goal(task) not in text and text.count("Example ") == 3
    twin = Exemplars.read(file, 9).text(env, Task("counter", 15))
    assert env.goal(Task("counter", 0)) == env.goal(Task("counter", 15)) and env.goal(Task("counter", 0)) not in twin


def test_where_nothing_is_like_it(file):
    assert Exemplars.read(file).text(toy.Vast(), Task("vast", 1)) == ""


@pytest.mark.parametrize(
    ("episodes", "nearest", "says"),
    [
        ((1,), 2, "holds no episode that succeeded"),
        ((), 2, "holds no episode that succeeded"),
        ((0,), 0, "give at least 1"),
    ],
)
def test_files_that_help_nobody_are_refused(tmp_path, episodes, nearest, says):
    episode_store.write(tmp_path / "a.parquet", [played(index, right=not index) for index in episodes])
    with pytest.raises(ValueError, match=says):
        Exemplars.read(tmp_path / "a.parquet", nearest)
    with pytest.raises(FileNotFoundError, match=r"none.parquet does not exist; give a file of episodes"):
        Exemplars.read(tmp_path / "none.parquet")


def test_an_api_reads_them(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def evaluated(name):
        words = ["eval", "panel=counter:test:2", f"policy={name}", f"exemplars={file}", "nearest=1", "max_turns=1"]
        return CliRunner().invoke(app, words)

    server = ChatServer(lambda messages: "Action: say 9")
    command = asyncio.run(server.during(lambda name: asyncio.to_thread(evaluated, name)))
    assert command.exit_code == 0, command.output
    assert all("Solved before, of other tasks:" in body["messages"][2]["content"] for body in server.requests)
    (result,) = tmp_path.glob("evals/*/*-exemplars1-*/result.json")
    assert json.loads(result.read_text())["plan"]["rules"]["exemplars"]["nearest"] == 1
    other = CliRunner().invoke(app, ["eval", "panel=vast:test:2", f"policy={UNASKED}", f"exemplars={file}"])
    assert other.exit_code == 2 and "solved.parquet has successes of counter, none of vast" in other.stderr
    refused = CliRunner().invoke(app, ["eval", "panel=counter:test:2", "policy=random", f"exemplars={file}"])
    assert refused.exit_code == 2 and "policy=random reads nothing; leave exemplars= out" in refused.stderr


def test_those_of_other_environments_help_no_run(file):
    pytest.importorskip("verl")
    from agentgym_rl.engine.recipe.compose import load
    from agentgym_rl.engine.recipe.resolved import Resolved

    with pytest.raises(ValueError, match=r"solved.parquet has successes of counter, none of maze"):
        _ = Resolved(load(["name=x", "env=maze", "algorithm=grpo", f"rollout.exemplars={file}"])).exemplars
