"""Environments with tasks of their own are explored, too; a scripted explorer and writer behind an API."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.envs import Task, make

sys.path.insert(0, str(Path(__file__).parents[1] / "rollout"))

from chat_server import ChatServer, samples, serving

LOOK = {
    "todo": 'get_tasks with Action Input: {"project_id": "PROJECT"}',
    "sheet": "get_all_values with Action Input: {}",
    "weather": "get_user_current_date with Action Input: {}",
    "movie": "check_valid_actions with Action Input: {}",
    "academia": "loadPaperNet with Action Input: {}",
    "sqlgym": "SELECT 1",
}
"""The last call of an explorer, by environment."""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def start_of(env, rollout, split="train"):
    """The task as which an episode begins."""
    return Task(env, Random(f"0 {rollout}").choice(make(env).spec.splits[split]))


class Oracles(ChatServer):
    """An explorer that does what solves the task as which its episode begins, and a writer who says so.

    ``made`` are its commands by episode; the last looks at the result.
    """

    def __init__(self, env, ideas, rollouts=("train",)):
        super().__init__(self.said)
        self.ideas, self.made = ideas, []
        self.tasks = [Task(env, index) for index in range(20)]
        for rollout, split in enumerate(rollouts):
            commands = make(env).oracle(start_of(env, rollout, split))
            commands = commands if env == "sqlgym" else commands[:-1]
            ids = [
                json.loads(call.partition("Input: ")[2]).get("project_id") for call in commands if "project_id" in call
            ]
            self.made.append([*commands, LOOK[env].replace("PROJECT", ids[0] if ids else "")])
        self.end = "SELECT 2" if env == "sqlgym" else 'finish with Action Input: {"answer": "seen"}'

    def said(self, messages):
        prompt = messages[0]["content"]
        if prompt.startswith("These tools are"):
            return '{"why": "It does.", "exact": true}'
        if prompt.startswith("Somebody used"):
            count = int(re.findall(r"(?m)^(\d+)\. ", prompt)[-1])
            return json.dumps(self.ideas(count))
        made = self.made[samples(*self.tasks)[self.body["seed"]]]
        turn = sum(message["role"] == "assistant" for message in messages) - 1
        return f"Action: {made[turn] if turn < len(made) else self.end}"

    def asked(self, start):
        prompts = [body["messages"][0]["content"] for body in self.requests]
        return [text for text in prompts if text.startswith(start)]


def question(count):
    return [{"instruction": f"What comes of the {count} things?", "calls": [*range(1, count)], "answer": "seen"}]


def change(count):
    return [{"instruction": f"Do these {count} things.", "calls": [*range(1, count)], "state": count}]


def explore(env, server, *arguments):
    with serving(server) as name:
        defaults = [f"policy={name}", f"writer={name}", "out=tasks.jsonl", "rollouts=1", "retries=0", "max_turns=20"]
        words = {word.partition("=")[0]: word for word in [*defaults, *arguments]}
        return CliRunner().invoke(app, ["explore", env, *words.values()], env={"COLUMNS": "150"})


def written(file="tasks.jsonl"):
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


@pytest.mark.parametrize("env", ["todo", "weather", "movie", "academia"])
def test_questions_are_found_and_can_be_played(env):
    result = explore(env, Oracles(env, question))
    assert result.exit_code == 0, result.output
    (line,) = written()
    assert line["check"] == {"answer": "seen"} and line["start"] == start_of(env, 0).index
    assert line["plan"][-1] == ["finish", {"answer": "seen"}] and len(line["plan"]) > 1
    played = make(env, tasks="tasks.jsonl")
    assert [Task.parse(f"{env}_{index}") for index in played.spec.splits["train"]] == [Task(env, 0)]
    assert line["instruction"] in played.goal(Task(env, 0))


def test_changes_are_found_and_can_be_evaluated():
    """Of sheets: an operation ends with a workbook that is compared."""
    result = explore("sheet", Oracles("sheet", change, ("train", "test")), "rollouts=2", "test=0.5")
    assert result.exit_code == 0 and "(1 test, 1 train)" in result.stdout.replace("1 train, 1 test", "1 test, 1 train")
    assert {line["split"]: line["start"] for line in written()} == {
        "train": start_of("sheet", 0).index, "test": start_of("sheet", 1, "test").index,
    }, "no split begins where another does"  # fmt: skip
    assert all(set(line["check"]) == {"state", "equals"} for line in written())
    keys = ["panel=sheet:train,sheet:test", "policy=oracle", "out=evals", "options.sheet.tasks=tasks.jsonl"]
    played = CliRunner().invoke(app, ["eval", *keys])
    assert played.exit_code == 0 and "100.0" in played.output, played.output


def test_a_query_becomes_a_question():
    def ideas(count):
        return [
            {"instruction": "What is there?", "calls": [1], "answer": "seen"},
            {"instruction": "What is there, twice?", "calls": [1, 2], "answer": "seen"},
            {"instruction": "Change it.", "calls": [1], "state": 2},
        ]

    server = Oracles("sqlgym", ideas)
    result = explore("sqlgym", server, "options.sqlgym.explore=2", "max_turns=3")
    assert result.exit_code == 0 and "2 more than a question" in result.stdout, result.output
    start = start_of("sqlgym", 0)
    assert written() == [
        {
            "instruction": "What is there?", "difficulty": "1 call", "query": make("sqlgym").oracle(start)[0],
            "start": start.index, "split": "train",
        }
    ]  # fmt: skip
    (prompt,) = server.asked("Somebody used")
    assert "exactly one call" in prompt and "SELECT 2" not in prompt, "the query that ends an episode is none of it"
    first = server.requests[0]["messages"][-1]["content"]
    assert "begin" not in first and "Look around with execute_sql" in first
    played = CliRunner().invoke(
        app, ["eval", "panel=sqlgym:train", "policy=oracle", "options.sqlgym.tasks=tasks.jsonl", "out=evals"]
    )
    assert played.exit_code == 0 and "100.0" in played.output, played.output


def test_what_was_paid_for_is_not_asked_again():
    """A cap ends it at the second question to the writer; with a greater one it goes on, and writes the same."""
    server, splits = Oracles("todo", question, ("train",) * 3), ["rollouts=3", "test=0", "concurrency=1"]
    turns = sum(len(made) + 1 for made in server.made)
    capped = explore("todo", server, *splits, "price=1000,1000", f"max_cost={0.012 * (turns + 0.5)}")
    assert capped.exit_code == 2 and "the same command with a greater max_cost= goes on" in capped.stderr
    assert len(server.requests) == turns + 1 and not Path("tasks.jsonl").exists()
    assert explore("todo", server, *splits, "price=1000,1000", "max_cost=9").exit_code == 0
    straight = Oracles("todo", question, ("train",) * 3)
    assert explore("todo", straight, *splits, "out=straight.jsonl").exit_code == 0
    assert len(server.requests) == len(straight.requests)
    assert written() == written("straight.jsonl") and written()


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_done():
    """It comes while a question of the judge waits for its answer."""
    server = Oracles("todo", question)
    with serving(server) as name:
        keys = ["rollouts=1", "retries=0", "max_turns=20", "out=tasks.jsonl"]
        arguments = ["explore", "todo", f"policy={name}", f"writer={name}", *keys]
        code = f"from agentgym_rl.cli import app; app({arguments!r})"
        process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        answer = server.say

        def interrupting(messages):
            if messages[0]["content"].startswith("These tools are"):
                os.kill(process.pid, signal.SIGINT)
                process.wait(10)
                server.say = answer
            return answer(messages)

        server.say = interrupting
        stderr = process.communicate(timeout=120)[1]
        assert process.returncode == 130 and "The same command goes on where this one stopped" in stderr
        before = len(server.requests)
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0 and len(written()) == 1, result.output
    assert len(server.requests) == before + 1, "only the judge is asked again"


def test_tasks_that_there_are_are_not_written_again():
    """Those of a file, whose tasks nobody plays then."""
    assert explore("todo", Oracles("todo", question)).exit_code == 0
    Path("tasks.jsonl").rename("panel.jsonl")
    again = explore("todo", Oracles("todo", question), "options.todo.tasks=panel.jsonl")
    assert again.exit_code == 2 and "no task of 1 counts (1 twice)" in again.stderr, again.output


def test_a_setup_is_part_of_episodes_and_tasks():
    setup = [["get_user_current_date", {}]]
    Path("setup.json").write_text(json.dumps(setup))
    assert explore("todo", Oracles("todo", question), "setup=setup.json").exit_code == 0
    assert written()[0]["setup"] == setup


@pytest.mark.parametrize(
    ("env", "arguments", "says"),
    [
        ("textcraft", [], "textcraft cannot be explored: it takes no file of tasks; give one of academia, mcp, movie"),
        ("todos", [], "unknown environment 'todos'"),
        ("sqlgym", [], "options.sqlgym.explore= is missing: the number of queries of an explorer, such as 5"),
        ("sqlgym", ["setup=setup.json", "options.sqlgym.explore=2"], "setup= has no effect: nothing in sqlgym can be"),
        ("todo", ["setup=setup.json"], "setup.json: todo has no tool 'fly'; it has get_user_current_date"),
        ("todo", ["options.todo.tasks=none.jsonl"], "no file of tasks at none.jsonl"),
        ("todo", ["options.mcp.server=x"], "options.mcp has no effect: todo is explored"),
        ("todo", ["options.todo.server=x"], "todo has no option 'server'"),
    ],
)
def test_wrong_arguments_say_what_helps(env, arguments, says):
    Path("setup.json").write_text('[["fly", {}]]')
    server = Oracles("todo", question)
    result = explore(env, server, *arguments)
    assert result.exit_code == 2 and says in result.stderr, result.output
    assert server.requests == []
