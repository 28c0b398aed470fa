"""Environments made of an MCP server's tools, against a real server in processes of its own; and tools served."""

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import toy
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.envs import Task, make
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import (
    EnvFault,
    EnvTimeout,
    EnvUnavailable,
    OracleUnavailable,
    ProtocolError,
    TaskNotFound,
)
from agentgym_rl.envs.formats import opening, reader, write
from agentgym_rl.envs.task_file import read_tasks
from agentgym_rl.envs.tools import Tool, to_call
from agentgym_rl.envs.tooluse.written import Outcome, task_of
from agentgym_rl.rollout.policies.scripted import Oracle
from agentgym_rl.rollout.settings import RolloutSettings

mcp = pytest.importorskip("mcp", reason="needs mcp: pip install 'agentgym-rl[mcp]'")

LowServer = pytest.importorskip("mcp.server").Server
ToolServer = pytest.importorskip("agentgym_rl.envs.mcp.server").ToolServer
connections = pytest.importorskip("agentgym_rl.envs.mcp.connection")

HERE = Path(__file__).parent
NOTES = shlex.join([sys.executable, str(HERE / "mcp_notes.py")])
ADD = ["add_note", {"note": {"title": "milk", "text": "two litres"}}]
KEEP = {
    "instruction": "Keep a note: milk, two litres.",
    "check": {"state": {"tool": "notes"}, "equals": {"milk": "two litres"}},
    "plan": [ADD, ["finish", {"answer": "done"}]],
    "difficulty": "one call",
}
COUNT = {
    "instruction": "How many notes are there?",
    "split": "test",
    "setup": [["add_note", {"note": {"title": "a"}}]],
    "check": {"answer": 1},
    "plan": [["notes", {}], ["finish", {"answer": 1}]],
}


@contextmanager
def over_http():
    """The same server behind a URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(HERE / "mcp_notes.py"), str(port)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def url():
    """A server that has a session for each episode: a process for each would start for longer than it plays."""
    with over_http() as place:
        yield place


@pytest.fixture
def opened(tmp_path):
    """Makes the environment with some tasks; its sessions are to be closed by the test."""

    def make_it(*tasks, **options):
        path = tmp_path / "tasks.jsonl"
        path.write_text("".join(f"{json.dumps(task)}\n" for task in tasks or (KEEP, COUNT)))
        return make("mcp", **{"server": NOTES, "tasks": str(path), **options})

    return make_it


def command(name, **arguments):
    return f"{name} with Action Input: {json.dumps(arguments)}"


async def after(env, index, *commands):
    """The steps of an episode, after which the session is closed."""
    try:
        await env.reset(Task("mcp", index))
        return [await env.step(command) for command in commands]
    finally:
        await env.close()


@pytest.mark.slow
def test_tools_keep_their_schemas(opened):
    tools = {tool.name: tool.schema["function"] for tool in opened().spec.tools}
    assert list(tools) == ["add_note", "notes", "process", "crash", "finish"]
    schema = tools["add_note"]["parameters"]
    assert schema["properties"]["note"] == {"$ref": "#/$defs/Note"} and schema["$defs"]["Note"]["required"] == ["title"]
    assert tools["add_note"]["description"] == "Keep a note."


@pytest.mark.parametrize(("style", "action_format"), [*zip(["agentgym"] + ["compact"] * 3, ActionFormat, strict=True)])
def test_the_plan_solves_in_every_format(opened, url, style, action_format):
    env = opened(server=url, style=style)
    assert (env.spec.splits, env.difficulty(Task("mcp", 0))) == ({"train": (0,), "test": (1,)}, "one call")
    assert "add_note" in opening(env.spec, style, action_format)[0]["content"]
    read = reader(env.spec, action_format)
    for index in (0, 1):
        commands = [
            read(write(env.spec, action_format, command, "so")).command for command in env.oracle(Task("mcp", index))
        ]
        steps = asyncio.run(after(env, index, *commands))
        assert [(step.reward, step.terminated) for step in steps] == [(0.0, False), (1.0, True)]


def test_another_end_earns_nothing(opened, url):
    (lost,) = asyncio.run(after(opened(server=url), 0, command("finish", answer="done")))
    assert (lost.reward, lost.terminated) == (0.0, True)
    (wrong,) = asyncio.run(after(opened(server=url), 1, command("finish", answer=2)))
    assert wrong.reward == 0.0


def test_a_mistake_is_an_observation(opened, url):
    mistakes = {
        "look": "no '<action> with Action Input",
        command("fly"): "no action 'fly'; there are add_note, notes, process, crash, finish",
        command("add_note", note=3): "3 is not of type 'object'",
        command("process", wait=-1): "-1 is less than the minimum",
        command("add_note", note={"title": "a"}): "ERROR",
    }
    *steps, after_all = asyncio.run(after(opened(server=url), 1, *mistakes, command("notes")))
    for step, message in zip(steps, mistakes.values(), strict=True):
        assert message in step.observation.text and step.info["invalid"] and not step.done
    assert '"a": ""' in after_all.observation.text and not after_all.info["invalid"]


def test_half_a_surrogate_pair_is_the_agents_and_no_failure_of_the_server(opened, url):
    (step,) = asyncio.run(after(opened(server=url), 0, command("add_note", note={"title": "\ud83d"})))
    assert "kept \ufffd" in step.observation.text and not step.info["invalid"]


@pytest.mark.slow
def test_every_episode_has_a_process_of_its_own(opened):
    async def both():
        env, other = opened(), opened()
        try:
            await asyncio.gather(env.reset(Task("mcp", 0)), other.reset(Task("mcp", 0)))
            await env.step(command(*ADD[:1], **ADD[1]))
            seen = [(await session.step(command("notes"))).observation.text for session in (env, other)]
            numbers = [(await session.step(command("process"))).observation.text for session in (env, other)]
            await env.reset(Task("mcp", 0))
            numbers.append((await env.step(command("process"))).observation.text)
            return seen, numbers
        finally:
            await env.close()
            await other.close()

    seen, numbers = asyncio.run(both())
    assert "milk" in seen[0] and "milk" not in seen[1] and len(set(numbers)) == 3


@pytest.mark.slow
def test_a_crash_and_a_hang_are_no_episodes(opened):
    with pytest.raises(EnvTimeout, match=r"process: no answer within 0.5 s"):
        asyncio.run(after(opened(timeout=0.5), 0, command("process", wait=1000)))

    async def onwards():
        env = opened()
        await env.reset(Task("mcp", 0))
        with pytest.raises(EnvUnavailable, match=r"crash: .*it wrote: .*the disk is full"):
            await env.step(command("crash"))
        with pytest.raises(ProtocolError, match="reset first"):
            await env.step(command("notes"))
        await env.reset(Task("mcp", 0))
        assert not (await env.step(command("notes"))).info["invalid"]
        await env.close()

    asyncio.run(onwards())


@pytest.mark.slow
def test_sessions_behind_a_url_are_apart(opened, url):
    async def both():
        env, other = opened(server=url), opened(server=url)
        try:
            await asyncio.gather(env.reset(Task("mcp", 0)), other.reset(Task("mcp", 1)))
            won = [await env.step(plan) for plan in env.oracle(Task("mcp", 0))]
            seen = (await other.step(command("notes"))).observation.text
            await env.reset(Task("mcp", 0))
            return won, seen, (await env.step(command("notes"))).observation.text
        finally:
            await env.close()
            await other.close()

    tools = [tool.schema for tool in opened(server=url).spec.tools]
    won, seen, afterwards = asyncio.run(both())
    with pytest.raises(EnvTimeout, match=r"process: no answer within 0.5 s"):
        asyncio.run(after(opened(server=url, timeout=0.5), 0, command("process", wait=1)))
    (counted,) = asyncio.run(after(opened(server=url), 1, command("finish", answer=1)))
    assert tools == [tool.schema for tool in opened().spec.tools]
    assert [step.reward for step in won] == [0.0, 1.0] and counted.reward == 1.0
    assert '"a"' in seen and "milk" not in seen and "milk" not in afterwards


@pytest.mark.slow
def test_a_server_behind_a_url_that_ends_or_hangs(opened):
    async def ends(url):
        env = opened(server=url, start_timeout=5)
        try:
            await env.reset(Task("mcp", 0))
            with pytest.raises(EnvUnavailable, match=f"MCP server '{url}' crash: "):
                await env.step(command("crash"))
            with pytest.raises(EnvUnavailable, match=f"MCP server '{url}' does not start"):
                await env.reset(Task("mcp", 0))
        finally:
            await env.close()

    with over_http() as url:
        asyncio.run(ends(url))
    with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(EnvTimeout, match="did not answer within 2 s"):
        opened(server=f"http://127.0.0.1:{deaf.getsockname()[1]}/mcp", start_timeout=2)


@pytest.mark.slow
def test_a_crashed_episode_is_run_again_and_does_not_count(opened):
    crashing = {**KEEP, "plan": [["crash", {}], ["finish", {"answer": ""}]]}
    settings = RolloutSettings(retries=1)
    episode = asyncio.run(Oracle().run(opened(crashing), Task("mcp", 0), settings))
    assert (episode.ending.value, episode.ending.counts, episode.attempts) == ("env_error", False, 2)
    assert "the disk is full" in episode.error


def test_checks_in_python(opened, url, tmp_path):
    (tmp_path / "checks.py").write_text(
        "async def kept(outcome):\n"
        "    notes = await outcome.ask('notes', {})\n"
        "    return 0.5 * ('milk' in notes) + 0.5 * (outcome.calls[0][0] == 'add_note' and outcome.answer == 'done')\n"
        "def broken(outcome): return 1 / 0\n"
        "def wild(outcome): return 7\n"
    )
    plans = [{**KEEP, "check": {"python": f"checks.py:{name}"}} for name in ("kept", "broken", "wild")]
    env = opened(*plans, server=url)
    acts = [command(ADD[0], **ADD[1]), command("finish", answer="done")]
    assert asyncio.run(after(env, 0, *acts))[-1].reward == 1.0
    assert asyncio.run(after(env, 0, acts[0], command("finish", answer="no")))[-1].reward == 0.5
    with pytest.raises(EnvFault, match=r"checks.py:broken failed: ZeroDivisionError"):
        asyncio.run(after(env, 1, *acts))
    with pytest.raises(EnvFault, match=r"gave 7\.0; a reward is in"):
        asyncio.run(after(env, 2, *acts))


def test_a_setup_that_fails_is_no_episode(opened, url):
    with pytest.raises(EnvFault, match="mcp_0: its setup, add_note, failed"):
        asyncio.run(after(opened({**COUNT, "setup": COUNT["setup"] * 2}, server=url), 0))


def test_facts_without_a_server():
    env = make("mcp")
    assert env.spec.splits == {"train": (), "test": ()} and "without a server" in env.spec.unavailable["train"]
    with pytest.raises(EnvUnavailable, match="set the options server"):
        asyncio.run(env.reset(Task("mcp", 0)))
    with pytest.raises(ValueError, match="tasks needs the option server"):
        make("mcp", tasks="x")


def test_a_server_without_tasks_shows_its_tools():
    env = make("mcp", server=NOTES)
    assert [tool.name for tool in env.spec.tools][:2] == ["add_note", "notes"]
    assert env.spec.unavailable.keys() == {"train", "test"}
    with pytest.raises(EnvUnavailable, match="without tasks: set the option tasks"):
        asyncio.run(env.reset(Task("mcp", 0)))


def test_unknown_tasks_and_plans(opened, url):
    env = opened({**COUNT, "plan": []}, server=url)
    with pytest.raises(TaskNotFound, match="mcp has no task 5: valid are 0 to 0"):
        asyncio.run(env.reset(Task("mcp", 5)))
    with pytest.raises(OracleUnavailable, match="mcp_0 has no plan"):
        env.oracle(Task("mcp", 0))


@pytest.mark.parametrize(
    ("server", "seconds", "message"),
    [
        ("no_such_command_at_all", 60, "No such file"),
        (shlex.join([sys.executable, "-c", "raise SystemExit('bad luck')"]), 60, "it wrote: bad luck"),
        ("http://127.0.0.1:9/mcp", 60, "does not start"),
        (shlex.join([sys.executable, "-c", "import time; time.sleep(1000)"]), 1, "did not answer within 1 s"),
    ],
)
def test_servers_that_do_not_start(opened, server, seconds, message):
    with pytest.raises((EnvUnavailable, EnvTimeout), match=message):
        opened(server=server, start_timeout=seconds)


def listing(monkeypatch, cursor_after):
    """The tools of a server in this process whose list has one on each page."""
    pages = []

    async def listed(_, params):
        pages.append(params.cursor if params else None)
        tool = mcp.types.Tool(name=f"tool_{len(pages)}", input_schema={"type": "object", "properties": {}})
        return mcp.types.ListToolsResult(tools=[tool], next_cursor=cursor_after(len(pages)))

    monkeypatch.setattr(connections.Connection, "_target", lambda self: LowServer("pages", on_list_tools=listed))

    async def ask():
        connection = await connections.Connection.open(connections.Server("pages", start_timeout=0.5))
        try:
            async with asyncio.timeout(5):
                return [tool.name for tool in await connection.tools()]
        finally:
            await connection.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("end", ["", None])
def test_the_list_of_tools_ends_without_a_cursor(monkeypatch, end):
    assert listing(monkeypatch, lambda page: "more" if page == 1 else end) == ["tool_1", "tool_2"]


def test_a_list_of_tools_without_an_end_is_a_fault_of_the_server(monkeypatch):
    with pytest.raises(EnvFault, match=r"'pages' tools/list: the list begins anew: its cursor 'b' came before"):
        listing(monkeypatch, lambda page: "ab"[page % 2])
    with pytest.raises(EnvTimeout, match=r"tools/list: has not told all tools within 0\.5 s"):
        listing(monkeypatch, str)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ([], "tasks.jsonl:1: a task is a JSON object"),
        ({**COUNT, "goal": "x"}, "unknown key 'goal'"),
        ({**COUNT, "instruction": " "}, "instruction should be a text"),
        ({**COUNT, "check": {}}, "check should have one of answer, state, python"),
        ({**COUNT, "check": {"answer": 1, "state": {}}}, "check should have one of"),
        ({**COUNT, "check": {"answer": 1, "equal": 1}}, "unknown key 'equal'"),
        ({**COUNT, "check": {"state": {"tool": "notes"}}}, 'check wants {"state"'),
        ({**COUNT, "check": {"python": "checks.py"}}, 'check wants {"python"'),
        ({**COUNT, "setup": [["notes"]]}, r"setup has \[\"notes\"\]; a call is \[name, arguments\]"),
        ({**COUNT, "split": 3}, "split and difficulty should be texts"),
    ],
)
def test_malformed_tasks_are_one_line(tmp_path, task, message):
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(task))
    with pytest.raises(ValueError, match=message):
        read_tasks(path, task_of)


def test_a_call_that_no_tool_takes_is_found_in_its_line(tmp_path, url):
    path = tmp_path / "tasks.jsonl"
    path.write_text(f"{json.dumps(KEEP)}\n\n{json.dumps({**COUNT, 'plan': [['nots', {}]]})}\n")
    with pytest.raises(ValueError, match=r"tasks\.jsonl:3: there is no function 'nots'"):
        make("mcp", server=url, tasks=str(path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"server": "http://127.0.0.1:9/mcp", "folder": "/tmp"}, "variables and folder are for a server's process"),
        ({"server": "http://127.0.0.1:9/mcp", "variables": {"A": "b"}}, "variables and folder are for"),
        ({"tasks": "tasks.jsonl"}, "mcp's option tasks needs the option server: give both"),
        ({"folder": "/tmp"}, "mcp's option folder needs the option server: give both"),
    ],
)
def test_options_that_do_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make("mcp", **options)


def test_files_without_tasks(tmp_path):
    with pytest.raises(ValueError, match="no file of tasks at"):
        read_tasks(tmp_path / "none.jsonl", task_of)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ValueError, match="holds no task"):
        read_tasks(tmp_path / "empty.jsonl", task_of)


def test_answers_may_have_a_tolerance(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"instruction": "How far?", "check": {"answer": 10, "tolerance": 0.5}}))
    (task,) = read_tasks(path, task_of)
    rewards = [asyncio.run(task.reward(Outcome(answer, (), None))) for answer in (10.4, "10.4 km", 10.6)]
    assert rewards == [1.0, 1.0, 0.0]


# ---------------------------------------------------------------------------------------------- our tools, served


def served(name, *options):
    return [sys.executable, "-m", "agentgym_rl.cli", "serve", name, "--protocol", "mcp", *options]


@asynccontextmanager
async def client(*words):
    parameters = mcp.StdioServerParameters(command=words[0], args=list(words[1:]), env=dict(os.environ))
    async with mcp.Client(parameters) as opened_client:
        yield opened_client


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("movie", "academia", "todo", "sheet")]


@pytest.mark.parametrize("name", ["weather", "textcraft", *OTHERS])
def test_an_environment_is_solved_through_its_tools(name):
    env = make(name)
    task = Task(name, env.spec.splits["test"][0])

    async def solve():
        async with client(*served(name)) as opened_client:
            listed = {tool.name: tool.input_schema for tool in (await opened_client.list_tools()).tools}
            early = await opened_client.call_tool(env.spec.tools[0].name, {})
            first = await opened_client.call_tool("start_task", {"task": str(task)})
            steps = []
            for command in env.oracle(task):
                steps.append(await opened_client.call_tool(*to_call(env.spec.tools, command)))
            wrong = await opened_client.call_tool("start_task", {"task": "nowhere_3"})
            return listed, early, first, steps, wrong

    listed, early, first, steps, wrong = asyncio.run(solve())
    assert listed.keys() == {"start_task", *(tool.name for tool in env.spec.tools)}
    assert all(listed[tool.name] == tool.schema["function"]["parameters"] for tool in env.spec.tools)
    assert early.is_error and wrong.is_error
    assert first.content[0].text == asyncio.run(env.reset(task)).text
    assert first.structured_content["item_id"] == str(task)
    last = steps[-1].structured_content
    assert (last["reward"], last["terminated"]) == (1.0, True) and not any(step.is_error for step in steps)


class Counting(toy.Counter):
    """A counter with a tool, and no training tasks; in the middle of a step others go on."""

    busy = False

    @property
    def spec(self):
        say = Tool("say", "Say it.", {"number": {"type": "integer"}}, commands=("say {number}",))
        return replace(super().spec, tools=(say,), splits={"train": (), "test": range(40, 50)})

    async def _step(self, action):
        assert not self.busy, "a call began before the one before it had ended"
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        return await super()._step(action)


def test_calls_that_come_at_once_follow_one_another():
    async def main():
        session = ToolServer(Counting())
        await session.call("start_task", {"task": "counter_41"})
        return await asyncio.gather(*(session.call("say", {"number": number}) for number in (1, 2, 3)))

    assert [result.structured_content["reward"] for result in asyncio.run(main())] == [0.0, 0.0, 1.0]


def test_a_task_is_drawn_from_a_split_that_has_one():
    session = ToolServer(Counting())
    assert "such as counter_40" in session.tools[0].parameters["task"]["description"]
    drawn, given, none = (
        asyncio.run(session.call("start_task", arguments))
        for arguments in ({"split": "test"}, {"task": "counter_40"}, {})
    )
    assert not drawn.is_error and not given.is_error
    assert none.content[0].text == "Error: the split 'train' has no task; there are train, test"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"check": {"state": {"tool": "note"}, "equals": 1}}, "jsonl:1: there is no function 'note'; there are notes"),
        ({"check": {"state": {"tool": "notes", "arguments": {"of": 1}}, "equals": 1}}, "jsonl:1: notes: "),
        ({"setup": [["finish", {"answer": 1}]]}, "jsonl:1: there is no function 'finish'; there are notes"),
        ({"plan": [["notes", {}], ["end", {"answer": 1}]]}, "jsonl:1: there is no function 'end'"),
    ],
)
def test_a_file_that_calls_what_the_server_has_not_is_refused(opened, monkeypatch, change, says):
    monkeypatch.setattr("agentgym_rl.envs.mcp.connection.offered", lambda server: (Tool("notes", "All notes."),))
    with pytest.raises(ValueError, match=says):
        opened({**KEEP, **change}, server="notes")


@pytest.mark.slow
def test_a_server_with_a_tool_named_finish_is_refused(opened):
    with pytest.raises(ValueError, match="has a tool 'finish', the name of what ends an episode"):
        opened(server=shlex.join(served("todo")), variables=dict(os.environ))


@pytest.mark.slow
def test_what_cannot_be_served_as_tools(toys):
    several = CliRunner().invoke(app, ["serve", "todo", "sheet", "--protocol", "mcp"])
    assert several.exit_code == 2 and "serves one environment, got todo, sheet" in several.output
    none = CliRunner().invoke(app, ["serve", "counter", "--protocol", "mcp"])
    assert none.exit_code == 2 and "counter describes no tools" in none.output
