"""Tasks of one's own, which a harness plays: ``env=harness``."""

import asyncio
import json

import pytest

from agentgym_rl.envs import Task
from agentgym_rl.envs.core import EnvUnavailable, ProtocolError, TaskNotFound
from agentgym_rl.envs.harness import HarnessTasks

LINES = [
    {"goal": "Mend the first bug.", "repository": "a", "split": "train"},
    {"goal": "Mend the second bug.", "difficulty": "hard", "tests": [1, 2]},
    {"goal": "Mend the third bug.", "split": "test"},
]


@pytest.fixture
def env(tmp_path):
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, LINES)))
    return HarnessTasks(tasks=str(file), max_turns=7)


def test_each_line_is_a_task_that_the_harness_is_told_whole(env):
    assert {name: [*indices] for name, indices in env.spec.splits.items()} == {"train": [0, 1], "test": [2]}
    second = Task("harness", 1)
    assert (env.goal(second), env.difficulty(second), env.spec.max_turns) == ("Mend the second bug.", "hard", 7)
    assert env.briefing(second) == {**LINES[1], "split": "train"}
    assert json.loads(asyncio.run(env.content(second))) == env.briefing(second)
    with pytest.raises(TaskNotFound, match="valid are 0 to 2"):
        env.goal(Task("harness", 3))


def test_no_action_can_be_taken(env):
    async def play():
        await env.reset(Task("harness", 0))
        await env.step("look")

    with pytest.raises(ProtocolError, match="are played by a program"):
        asyncio.run(play())


def test_without_a_file_there_is_no_task():
    env = HarnessTasks()
    assert {*env.spec.splits} == {*env.spec.unavailable} == {"train", "test"}
    with pytest.raises(EnvUnavailable, match="set the option tasks"):
        env.goal(Task("harness", 0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no task"),
        ("7", ":1: a task is a JSON object"),
        ('{"goal": "a"}\n{"split": "test"}', ":2: goal should be a text"),
        ('{"goal": "a", "split": 3}', ":1: split should be a text"),
        ('{"goal": "a", "difficulty": " "}', ":1: difficulty should be a text"),
    ],
)
def test_a_file_that_is_wrong_is_told(tmp_path, text, message):
    file = tmp_path / "tasks.jsonl"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        HarnessTasks(tasks=str(file))
    with pytest.raises(ValueError, match="no file of tasks at"):
        HarnessTasks(tasks=str(tmp_path / "none"))
