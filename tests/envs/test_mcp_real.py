"""Environments made of real MCP servers, which have an environment of their own: `make mcp-check`."""

import asyncio
import json
import os
import shlex
import subprocess

import pytest

from agentgym_rl.envs import Task, make

BIN = os.environ.get("MCP_BIN") and os.path.abspath(os.environ["MCP_BIN"])
pytestmark = pytest.mark.skipif(BIN is None, reason="needs MCP servers in an environment: make mcp-check")


def solved(tmp_path, words, tools, *tasks):
    """Play the plans of tasks; the server must have the tools."""
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
    env = make("mcp", server=shlex.join([f"{BIN}/{words[0]}", *words[1:]]), tasks=str(path))
    assert set(tools) <= {tool.name for tool in env.spec.tools}

    async def rewards():
        rewards = []
        for index in range(len(tasks)):
            await env.reset(Task("mcp", index))
            steps = [await env.step(command) for command in env.oracle(Task("mcp", index))]
            assert not any(step.info["invalid"] for step in steps), [step.observation.text for step in steps]
            rewards.append(sum(step.reward for step in steps))
        await env.close()
        return rewards

    assert asyncio.run(rewards()) == [1.0] * len(tasks)


def test_time(tmp_path):
    convert = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"}
    task = {
        "instruction": "It is 12:00 in Tokyo. What time is it in Kolkata? Answer like 23:59.",
        "check": {"answer": "08:30"},
        "plan": [["convert_time", convert], ["finish", {"answer": "08:30"}]],
    }
    solved(tmp_path, ["mcp-server-time", "--local-timezone", "UTC"], ["convert_time", "get_current_time"], task)


def test_sqlite(tmp_path):
    def write(text):
        return ["write_query", {"query": text}]

    task = {
        "instruction": "Raise the stock of pears by one.",
        "setup": [
            ["create_table", {"query": "create table if not exists fruit (name text, stock integer)"}],
            write("delete from fruit"),
            write("insert into fruit values ('pear', 3), ('fig', 5)"),
        ],
        "check": {
            "state": {"tool": "read_query", "arguments": {"query": "select stock from fruit order by name"}},
            "equals": "[{'stock': 5}, {'stock': 4}]",
        },
        "plan": [write("update fruit set stock = stock + 1 where name = 'pear'"), ["finish", {"answer": "done"}]],
    }
    words = ["mcp-server-sqlite", "--db-path", str(tmp_path / "shop.db")]
    solved(tmp_path, words, ["read_query", "write_query", "list_tables"], task)


def test_git(tmp_path):
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    (repository / "notes.txt").write_text("milk\n")
    (tmp_path / "checks.py").write_text(
        "async def staged(outcome):\n"
        f"    status = await outcome.ask('git_status', {{'repo_path': {str(repository)!r}}})\n"
        "    return 'new file:   notes.txt' in str(status)\n"
    )
    task = {
        "instruction": f"Stage notes.txt in {repository}.",
        "check": {"python": "checks.py:staged"},
        "plan": [
            ["git_add", {"repo_path": str(repository), "files": ["notes.txt"]}],
            ["finish", {"answer": "done"}],
        ],
    }
    solved(tmp_path, ["mcp-server-git"], ["git_add", "git_status"], task)
