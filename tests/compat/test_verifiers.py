"""Our environments as a taskset of verifiers."""

import asyncio
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentgym_rl.envs import make
from agentgym_rl.envs.core import MissingExtra

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(find_spec("verifiers") is not None, reason="verifiers is installed")
def test_without_verifiers_the_package_is_named():
    with pytest.raises(MissingExtra, match=r"pip install 'agentgym-rl\[verifiers\]'"):
        import agentgym_rl.compat.verifiers  # noqa: F401


@pytest.fixture
def package(other, monkeypatch):
    """The example package is importable, for this process and its children."""
    other("verifiers")
    place = str(ROOT / "examples/verifiers_taskset")
    monkeypatch.syspath_prepend(place)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([place, str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return "agentgym-worlds"


def taskset(package, **config):
    from verifiers.v1.utils.loaders import load_taskset, taskset_config_type

    return load_taskset(taskset_config_type(package)(id=package, **config))


def test_tasks_of_a_split(package):
    tasks = list(taskset(package, env="textcraft", split="test", style="compact"))
    spec = make("textcraft").spec
    assert [task.data.item_id for task in tasks] == [f"textcraft_{index}" for index in spec.splits["test"]]
    assert {task.data.system_prompt for task in tasks} == {spec.instructions["compact"]}
    assert tasks[3].key == tasks[3].data.item_id and tasks[3].data.idx == 3
    called = next(iter(taskset(package, env="textcraft", action_format="function_calling")))
    assert "call these functions" in called.data.system_prompt
    for limit in (0, -1):
        with pytest.raises(ValueError, match="max_turns"):
            taskset(package, max_turns=limit)
    with pytest.raises(ValueError, match="no split 'dev'"):
        list(taskset(package, split="dev"))


def count_up(messages):
    """Plays `counter` from the conversation alone; of every third task wrongly."""
    said = sum(message["role"] == "assistant" for message in messages)
    wrong = "Count to 3" in json.dumps(messages) and said == 1
    return f"Thought: next.\nAction: say {said + 1 + wrong}"


@pytest.mark.timeout(400)
def test_vf_eval_plays_and_scores(package, toys, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests/rollout")
    monkeypatch.setenv("KEY", "none")
    from chat_server import ChatServer

    async def work(name):
        words = (
            f"{package} --env.taskset.env counter --env.taskset.split test -m m --push false --rich None "
            f"--client.base-url {name.partition('@')[2]} --client.api-key-var KEY --output-dir {tmp_path / 'out'}"
        ).split()
        run = (sys.executable, "-c", "from verifiers.v1.cli.eval.main import main; main()", *words)
        return await asyncio.to_thread(subprocess.run, run, capture_output=True, text=True, cwd=tmp_path, check=False)

    done = asyncio.run(ChatServer(count_up).during(work))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    [file] = (tmp_path / "out").rglob("traces.jsonl")
    episodes = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(episodes) == 10 and all(episode["ok"] for episode in episodes)
    for episode in episodes:
        [trace] = episode["traces"]
        index = int(episode["task"]["data"]["item_id"].rpartition("_")[2])
        expected = float(index % 3 != 2)
        assert (trace["rewards"]["reward"]["score"], trace["metrics"]["success"]) == (expected, expected)
