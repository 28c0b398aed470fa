"""OpenEnv both ways with the real ``openenv`` package, which has an environment of its own: `make openenv-check`."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.core import EnvFault
from agentgym_rl.envs.hosts import HostSettings, open_host
from agentgym_rl.envs.tools import to_call

BIN = os.environ.get("OPENENV_BIN") and os.path.abspath(os.environ["OPENENV_BIN"])
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
pytestmark = pytest.mark.skipif(BIN is None, reason="needs the openenv package in an environment: make openenv-check")


@contextmanager
def running(*words, cwd=None, path="/health"):
    """A server as a process, whose last argument is its port: its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*map(str, words), str(port)], cwd=cwd)
    try:
        for _ in range(600):
            assert process.poll() is None, "the server ended"
            try:
                if httpx.get(f"http://127.0.0.1:{port}{path}").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def ours(name):
    return running(sys.executable, "-m", "agentgym_rl.cli", "serve", name, "--protocol", "openenv", "--port", cwd=ROOT)


def real(kind):
    return running(f"{BIN}/python", HERE / "openenv_real.py", "serve", kind)


def played(url, plan):
    """What the real client sees."""
    words = [f"{BIN}/python", str(HERE / "openenv_real.py"), "play", url, json.dumps(plan)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return json.loads(subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("name", ["textcraft", "maze", "todo"])
def test_the_real_client_plays_our_environments(name):
    env = make(name)
    task = Task(name, env.spec.splits["test"][0])
    commands = env.oracle(task)
    calls = [to_call(env.spec.tools, command) for command in commands] if name == "todo" else []
    plan = {
        "reset": {"split": "test", "index": 0},
        "actions": [{"message": command} for command in commands],
        "calls": calls,
    }
    with ours(name) as address:
        seen = played(f"ws://{address}", plan)
    assert seen["first"]["text"] == asyncio.run(env.reset(task)).text
    assert [result[2] for result in seen["steps"]] == [False] * (len(commands) - 1) + [True]
    assert sum(result[1] for result in seen["steps"]) == 1.0
    assert seen["steps"][-1][3]["terminated"] is True and seen["state"]["item_id"] == str(task)
    assert seen["state"]["step_count"] == len(commands) and "(code: EXECUTION_ERROR)" in seen["error"]
    if calls:
        assert seen["tools"] == [tool.name for tool in env.spec.tools]
        assert seen["calls"] == [result[0]["text"] for result in seen["steps"]]


@pytest.mark.parametrize("name", ["textcraft", "todo"])
def test_the_real_validator_passes_our_server(name):
    with ours(name) as address:
        words = [f"{BIN}/openenv", "validate", f"http://{address}"]
        process = subprocess.run(words, capture_output=True, text=True)
    print(process.stdout)
    assert process.returncode == 0, process.stdout + process.stderr
    assert '"passed": true' in process.stdout or "Verdict: PASS" in process.stdout


async def episode(address, options, index, *commands):
    """The first observation and the steps of an episode on a server."""
    host = open_host(HostSettings.of({"address": f"ws://{address}"}))
    await host.check("openenv", options)
    env = host.open("openenv", options)
    try:
        return env, await env.reset(Task("openenv", index)), [await env.step(command) for command in commands]
    finally:
        await env.close()


def test_their_echo_server_is_an_environment(tmp_path):
    subprocess.run([f"{BIN}/openenv", "init", "echo_env", "-o", str(tmp_path)], check=True, capture_output=True)
    with running(f"{BIN}/python", "-m", "server.app", "--port", cwd=tmp_path / "echo_env") as address:
        env, first, steps = asyncio.run(episode(address, {"observation": "echoed_message"}, 3, "hello", "x" * 30))
    assert "ready" in first.text and [step.observation.text for step in steps] == ["hello", "x" * 30]
    assert [step.reward for step in steps] == [0.5, 0.5] and steps[1].info["raw_reward"] == 1.0
    assert len(env.spec.splits["test"]) == 100


def test_their_text_server_is_an_environment():
    with real("text") as address:
        options = {"observation": "messages"}
        env, first, steps = asyncio.run(episode(address, options, 14, "3", "4"))
        assert env.spec.splits == {"train": range(10), "test": range(10, 20)}
        with pytest.raises(EnvFault, match="the game broke"):
            asyncio.run(episode(address, options, 14, "boom"))
    assert first.text == "Guess a number from 0 to 9."
    assert [(step.observation.text, step.reward, step.terminated) for step in steps] == [
        ("3? No.", 0.0, False),
        ("Right.", 1.0, True),
    ]


def test_their_tools_are_called():
    with real("tools") as address:
        calls = ['add with Action Input: {"a": 2, "b": 3}', 'echo_message with Action Input: {"message": "hi"}', "add"]
        env, _, steps = asyncio.run(episode(address, {}, 0, *calls))
    assert [tool.name for tool in env.spec.tools] == ["echo_message", "add"]
    assert env.spec.tools[1].optional == ("b",)
    assert [step.observation.text for step in steps[:2]] == ["5", "hi"] and steps[2].info["invalid"]
