"""OpenEnv's protocol both ways: our server and client against each other, and against recorded frames."""

import asyncio
import json
import socket
import threading
import weakref
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import httpx
import pytest
import toy
from aiohttp import ClientSession, WSMsgType, WSServerHandshakeError, web
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from typer.testing import CliRunner

from agentgym_rl.cli import app
from agentgym_rl.data.panels import indices_of, select, write_item_ids
from agentgym_rl.envs import Task, make
from agentgym_rl.envs import http as http_client
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import (
    EnvFault,
    EnvTimeout,
    EnvUnavailable,
    Observation,
    ProtocolError,
    TaskNotFound,
)
from agentgym_rl.envs.formats import opening, reader, write
from agentgym_rl.envs.hosts import HostSettings, open_host
from agentgym_rl.envs.hosts.openenv import _OFFERS, OpenEnvSession
from agentgym_rl.envs.numbering import Panel
from agentgym_rl.envs.protocol.openenv import wire
from agentgym_rl.envs.protocol.openenv.client import Offer, Socket, ask
from agentgym_rl.envs.protocol.openenv.games import Served
from agentgym_rl.envs.protocol.openenv.server import create_openenv_app
from agentgym_rl.envs.protocol.server import Settings, http
from agentgym_rl.envs.protocol.server.metrics import Metrics
from agentgym_rl.envs.protocol.server.run import _server, listen
from agentgym_rl.envs.protocol.server.sessions import Sessions
from agentgym_rl.rollout.policies.scripted import Function, Oracle, Random
from agentgym_rl.rollout.settings import RolloutSettings


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Short back-offs, and servers that are asked anew."""
    monkeypatch.setattr("agentgym_rl.envs.pool.FIRST_BACKOFF", 0.02)
    monkeypatch.setattr("agentgym_rl.envs.pool.LONGEST_BACKOFF", 0.05)
    _OFFERS.clear()


@contextmanager
def serving(*names, ping_s=20.0, **settings):
    """Our server in a thread: its address. A client that does not answer a ping within ``ping_s`` loses its socket."""
    listening = listen("127.0.0.1", 0)
    chosen = Settings(envs={name: {} for name in names}, **settings)
    running = _server(create_openenv_app(chosen), chosen.body_limit)
    running.config.ws_ping_interval = running.config.ws_ping_timeout = ping_s
    thread = threading.Thread(target=running.run, args=([listening],))
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def counter(toys):
    with serving("counter") as address:
        yield address


def host(address, **settings):
    return open_host(HostSettings.of({"address": f"ws://{address}", "patience": 0.2, **settings}))


async def answers_of(address, *messages, **options):
    """The server's answers to messages in one socket; a text is sent as it is."""
    async with ClientSession() as session, session.ws_connect(f"ws://{address}/ws", **options) as ws:
        answers = []
        for message in messages:
            await ws.send_str(message if isinstance(message, str) else json.dumps(message))
            answer = await ws.receive()
            answers.append(json.loads(answer.data) if answer.type is WSMsgType.TEXT else answer.type)
        return answers


def talk(address, *messages, **options):
    return asyncio.run(answers_of(address, *messages, **options))


def reset(**data):
    return {"type": "reset", "data": data}


def step(message):
    return {"type": "step", "data": {"message": message}}


def code(answer):
    return answer["type"] == "error" and answer["data"]["code"]


# ---------------------------------------------------------------------------------------------- the server


def test_a_socket_is_a_session(counter):
    first, state, wrong, again, over = talk(
        counter,
        reset(split="test", index=1, episode_id="mine"),
        {"type": "state"},
        step("jump"),
        step("say 1"),
        step("x"),
    )
    assert first["type"] == "observation" and first["data"]["reward"] is None and first["data"]["done"] is False
    observation = first["data"]["observation"]
    assert (observation["text"], observation["metadata"]["item_id"]) == ("Count to 3.", "counter_41")
    assert observation["instruction"] == "Count up, one number a turn: say N." and "say 1" in observation["actions"]
    assert state["data"] == {
        "episode_id": "mine", "step_count": 0, "item_id": "counter_41", "total_reward": 0.0, "done": False
    }  # fmt: skip
    assert wrong["data"]["metadata"]["info"] == {"invalid": True} and wrong["data"]["reward"] == 0.0
    assert again["data"]["observation"]["text"] == "Right." and over["data"]["observation"]["metadata"]


def test_the_end_is_told_in_the_metadata(counter):
    *_, won, after = talk(counter, reset(item_id="counter_0"), step("say 1"), step("say 2"))
    assert won["data"]["reward"] == 1.0 and won["data"]["done"] is True
    assert won["data"]["metadata"]["terminated"] is True and won["data"]["metadata"]["truncated"] is False
    assert code(after) == "EXECUTION_ERROR" and after["data"]["type"] == "ProtocolError"


@pytest.mark.parametrize(
    ("message", "expected", "text"),
    [
        ("{", "INVALID_JSON", "no JSON"),
        ("[]", "VALIDATION_ERROR", "object"),
        ('{"type": "fly"}', "UNKNOWN_TYPE", "'fly'"),
        ('{"type": ["reset"]}', "UNKNOWN_TYPE", "reset"),
        ('{"type": "reset", "data": 3}', "VALIDATION_ERROR", "data should be an object"),
        (reset(seed=-1), "VALIDATION_ERROR", "seed is '-1'"),
        (reset(split="nope", index=0), "VALIDATION_ERROR", "no split 'nope'; it has train, test"),
        (reset(split="test", index=10), "VALIDATION_ERROR", "no task 10; it has 0 to 9"),
        (reset(index=1), "VALIDATION_ERROR", "no split 'None'"),
        (reset(item_id="maze_0"), "EXECUTION_ERROR", "maze_0 is not a task of counter"),
        (reset(episode_id="x" * 256), "VALIDATION_ERROR", "255"),
        (step("say 1"), "EXECUTION_ERROR", "reset first"),
        ({"type": "step", "data": {}}, "VALIDATION_ERROR", "an action has one of"),
        ({"type": "step", "data": {"message": 3}}, "VALIDATION_ERROR", "an action has one of"),
        ({"type": "step", "data": {"message": "a", "response": "b"}}, "VALIDATION_ERROR", "an action has one of"),
        ({"type": "step", "data": {"type": "call_tool"}}, "VALIDATION_ERROR", "tool_name"),
    ],
)
def test_errors_have_codes_and_the_session_goes_on(counter, message, expected, text):
    error, first = talk(counter, message, reset(item_id="counter_0"))
    assert code(error) == expected and text in error["data"]["message"]
    assert first["type"] == "observation"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_no_message_is_read_wrongly(value):
    for raw in (json.dumps(value), json.dumps({"type": value}), json.dumps({"type": "reset", "data": value})):
        try:
            kind, data = wire.read_message(raw)
        except wire.Fault:
            continue
        assert kind in wire.KINDS and isinstance(data, dict)


def test_seeds_draw_tasks_and_places_name_them(counter):
    def item(**data):
        return talk(counter, reset(**data))[0]["data"]["metadata"]["item_id"]

    assert item(seed=3) == item(seed=3)
    assert {item(seed=seed) for seed in range(12)} > {item(seed=1)}
    assert item(split="test", index=0) == "counter_40"
    assert int(item(split="test", seed=5).removeprefix("counter_")) >= 40
    assert int(item().removeprefix("counter_")) < 40


def test_close_ends_the_socket_and_its_session(counter):
    (closed,) = talk(counter, {"type": "close"})
    assert closed in (WSMsgType.CLOSE, WSMsgType.CLOSED)
    assert 'agentgym_sessions_open{env="counter"} 0.0' in httpx.get(f"http://{counter}/metrics").text


def test_a_full_server_says_so(toys):
    async def two(address):
        url = f"ws://{address}/ws"
        async with ClientSession() as session, session.ws_connect(url), session.ws_connect(url) as other:
            return json.loads((await other.receive()).data)

    with serving("counter", max_sessions=1) as address:
        assert code(asyncio.run(two(address))) == "CAPACITY_REACHED"
        assert talk(address, reset())[0]["type"] == "observation"


def test_an_unused_session_expires(toys):
    async def idle(address):
        async with ClientSession() as session, session.ws_connect(f"ws://{address}/ws") as ws:
            await asyncio.sleep(1)
            await ws.send_json(reset())
            return json.loads((await ws.receive()).data)

    with serving("counter", session_ttl=0.2) as address:
        assert code(asyncio.run(idle(address))) == "SESSION_ERROR"


def test_an_open_socket_outlives_the_time_for_a_request(toys, monkeypatch):
    monkeypatch.setattr(http, "RECEIVE_S", 0.2)

    async def wait(address):
        async with ClientSession() as session, session.ws_connect(f"ws://{address}/ws") as ws:
            await asyncio.sleep(1)
            await ws.send_json(reset())
            return json.loads((await ws.receive()).data)

    with serving("counter") as address:
        assert asyncio.run(wait(address))["type"] == "observation"


def test_tokens_pages_of_others_and_large_messages_are_refused(toys):
    with serving("counter", token="secret", body_limit=2000) as address:
        for headers in ({}, {"Authorization": "Bearer x"}):
            with pytest.raises(WSServerHandshakeError, match="403"):
                talk(address, reset(), headers=headers)
        bearer = {"Authorization": "Bearer secret"}
        for origin, allowed in ((f"http://{address}", True), ("http://evil.example", False)):
            if allowed:
                assert talk(address, reset(), headers={**bearer, "Origin": origin})[0]["type"] == "observation"
            else:
                with pytest.raises(WSServerHandshakeError, match="403"):
                    talk(address, reset(), headers={**bearer, "Origin": origin})
        assert httpx.post(f"http://{address}/reset", json={}).status_code == 401
        assert httpx.post(f"http://{address}/reset", content=b"{}", headers=bearer).status_code == 415
        assert httpx.post(f"http://{address}/reset", json={"a": "b" * 3000}, headers=bearer).status_code == 413
        assert httpx.post(f"http://{address}/reset", json={}, headers=bearer).status_code == 200
        assert talk(address, step("x" * 3000), headers=bearer)[0] in (WSMsgType.CLOSE, WSMsgType.CLOSED)


def test_http_has_no_sessions(counter):
    base = f"http://{counter}"
    assert httpx.get(f"{base}/health").json()["status"] == "healthy"
    assert httpx.get(f"{base}/state").json()["step_count"] == 0
    about = httpx.get(f"{base}/metadata").json()
    assert (about["name"], about["description"]) == ("counter", "Count up, one number a turn: say N.")
    assert httpx.get(f"{base}/schema").json().keys() == {"action", "observation", "reset_observation", "state"}
    assert httpx.post(f"{base}/reset", json={"item_id": "counter_1"}).json()["observation"]["text"] == "Count to 2."
    won = httpx.post(f"{base}/step", json={"item_id": "counter_0", "action": {"message": "say 1"}}).json()
    assert (won["reward"], won["done"]) == (1.0, True)
    assert httpx.post(f"{base}/step", json={"action": "say 1"}).status_code == 422
    assert httpx.post(f"{base}/reset", json={"item_id": "counter_99"}).status_code == 404
    assert httpx.post(f"{base}/reset", json={"seed": "x"}).status_code == 422
    paths = httpx.get(f"{base}/openapi.json").json()["paths"]
    assert {"/reset", "/step", "/state", "/counter/reset", "/counter/tasks", "/counter/counter/tasks"} <= paths.keys()


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("/counter/task", r'{"split": "test", "index": "\ud83d"}'),
        ("/reset", r'{"split": "test", "index": "\ud83d"}'),
        ("/reset", r'{"\ud83d": 1}'),
        ("/reset", r'"\ud83d"'),
        ("/reset", "NaN"),
        ("/step", r'{"item_id": "counter_0", "action": {"message": "\ud83d"}}'),
        ("/mcp", r'{"jsonrpc": "2.0", "id": "\ud83d", "method": "tools/list"}'),
        ("/mcp", '{"jsonrpc": "2.0", "id": NaN, "method": "tools/list"}'),
        ("/counter/num_tasks", "{"),
    ],
)
def test_a_body_that_no_answer_can_hold_is_refused(counter, path, raw):
    answer = httpx.post(f"http://{counter}{path}", content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422) and answer.json()["detail"]


def test_the_task_api(counter):
    base = f"http://{counter}"

    def ask(path, **body):
        answer = httpx.post(f"{base}/counter/{path}", json=body)
        return answer.json() if answer.status_code == 200 else answer.status_code

    assert httpx.get(f"{base}/list_environments").json() == ["counter"]
    train, test = httpx.get(f"{base}/counter/splits").json()
    assert (train["name"], train["type"], train["num_tasks"], test["num_tasks"]) == ("train", "train", 40, 10)
    assert train["digest"] != test["digest"]
    assert ask("num_tasks", split="test") == {"num_tasks": 10} and ask("num_tasks", split="x") == 422
    task = ask("task", split="test", index=3)["task"]
    assert task == {
        "item_id": "counter_43",
        "split": "test",
        "index": 3,
        "goal": "count to 2",
        "difficulty": "length 2",
    }
    assert talk(counter, reset(**task))[0]["data"]["metadata"]["item_id"] == "counter_43"
    listed = ask("tasks", split="test")
    assert listed["env_name"] == "counter" and listed["tasks"][3] == task and len(listed["tasks"]) == 10
    assert ask("task_range", split="test", start=3, stop=4) == {"tasks": [task]}
    assert len(ask("task_range", split="train", start=-5)["tasks"]) == 5
    assert ask("task", split="test", index=10) == 400 and ask("task", split="x", index=0) == 422
    assert ask("task_range", split="test", start="a") == 422
    assert httpx.get(f"{base}/maze/splits").status_code == 404


def test_panels_are_public(toys, monkeypatch, tmp_path):
    """As the command reads them: under the names and digests that an evaluation prints."""
    write_item_ids(listed := tmp_path / "mine.json", [Task("counter", 3), Task("counter", 44)])
    monkeypatch.setattr(
        "agentgym_rl.envs.protocol.server.serve", lambda settings, *_: published.append(settings.panels)
    )
    words = ["serve", "counter", "maze", "--protocol", "openenv", "--port", "0"]
    published: list[list[Panel]] = []
    drawn = ["--panel", "counter:test:4:2", "--panel", str(listed), "--panel", "maze:test:3"]
    result = CliRunner().invoke(app, [*words, *drawn])
    assert result.exit_code == 0, result.output
    panel, mine, _ = published[0]
    assert (panel.name, panel) == ("test-n4-seed2", select("counter", "test", n=4, seed=2))
    with serving("counter", "maze", panels=published[0]) as address:
        splits = httpx.get(f"http://{address}/counter/splits").json()
        assert [(split["name"], split["type"], split["num_tasks"]) for split in splits[2:]] == [
            ("test-n4-seed2", "test", 4),
            ("mine", "test", 2),
        ]
        assert [split["digest"] for split in splits[2:]] == [panel.digest, mine.digest]
        tasks = httpx.post(f"http://{address}/counter/tasks", json={"split": panel.name}).json()["tasks"]
        assert tuple(task["item_id"] for task in tasks) == panel.item_ids
        first = talk(f"{address}/counter", reset(split="mine", index=1))[0]["data"]
        assert first["metadata"]["item_id"] == "counter_44"
        there = host(f"{address}/counter")
        assert len(select("openenv", "test-n4-seed2", host=there).item_ids) == 4
        assert select("openenv", "test", host=there).item_ids[0] == "openenv_40"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--panel", "counter:test"], "counter has a split or a panel 'test' already"),
        (["--panel", "maze:test:3"], "panel test-n3-seed0 has tasks of maze, which is not served"),
        (["--panel", "counter:nope"], "no split 'nope'"),
        (["--panel", "counter:test:2", "--protocol", "agentgym"], "add --protocol openenv"),
    ],
)
def test_panels_that_cannot_be_public(toys, options, message):
    result = CliRunner().invoke(app, ["serve", "counter", "--port", "0", "--protocol", "openenv", *options])
    assert result.exit_code == 2 and message in " ".join(result.output.replace("│", " ").split())


@pytest.mark.slow
def test_long_splits_are_listed_in_parts():
    with serving("weather") as address:
        tasks = httpx.post(f"http://{address}/weather/tasks", json={"split": "train_variants"}, timeout=60).json()[
            "tasks"
        ]
        assert [len(tasks), tasks[0]["index"]] == [wire.MOST_TASKS, 0]


def test_several_environments_have_paths_of_their_own(toys):
    with serving("counter", "maze") as address:
        assert httpx.get(f"http://{address}/list_environments").json() == ["counter", "maze"]
        assert talk(f"{address}/maze", reset(split="test", index=0))[0]["data"]["metadata"]["item_id"].startswith(
            "maze_"
        )
        assert httpx.get(f"http://{address}/schema").status_code == 404
        assert httpx.get(f"http://{address}/maze/splits").json()


def test_whole_responses_and_tool_calls_are_read():
    with serving("todo") as address:
        call = {"type": "call_tool", "tool_name": "get_projects", "arguments": {}}
        response = {"response": "Thought: look\n\nAction: get_projects with Action Input: {}"}
        _, called, read, bad, listed = talk(
            address,
            reset(split="test", index=0),
            {"type": "step", "data": call},
            {"type": "step", "data": response},
            {"type": "step", "data": {**call, "arguments": {"x": 1}}},
            {"type": "step", "data": {"type": "list_tools"}},
        )
    assert called["data"]["observation"]["tool_name"] == "get_projects"
    assert called["data"]["observation"]["result"] == read["data"]["observation"]["text"]
    assert bad["data"]["metadata"]["info"]["invalid"] and "get_projects" in bad["data"]["observation"]["text"]
    names = [tool["name"] for tool in listed["data"]["observation"]["tools"]]
    assert names == [tool.name for tool in make("todo").spec.tools]


def test_mcp_over_http_shares_its_session_with_a_socket():
    with serving("todo") as address:

        def rpc(method, **params):
            body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
            return httpx.post(f"http://{address}/mcp", json=body).json()

        session = rpc("openenv/session/create")["result"]["session_id"]

        async def start():
            async with ClientSession() as http, http.ws_connect(f"ws://{address}/ws?session_id={session}") as ws:
                await ws.send_json(reset(split="test", index=0))
                return json.loads((await ws.receive()).data)

        assert rpc("tools/list")["result"]["tools"][0]["inputSchema"]["type"] == "object"
        call = {"session_id": session, "name": "get_projects", "arguments": {}}
        assert "reset first" in rpc("tools/call", **call)["error"]["message"]
        assert asyncio.run(start())["type"] == "observation"
        assert "id" in rpc("tools/call", **call)["result"]["data"]
        assert rpc("nothing", session_id=session)["error"]["code"] == -32601
        assert rpc("openenv/session/close", session_id=session)["result"]
        assert "there is no session" in rpc("tools/call", **call)["error"]["message"]
        assert httpx.post(f"http://{address}/mcp", json={}).json()["error"]["code"] == -32600
        assert code(talk(f"{address}", reset())[0]) is False


def test_workers_have_no_sessions_over_http(toys, tmp_path):
    client = TestClient(create_openenv_app(Settings(envs={"counter": {}}, workers=2), 0, tmp_path))
    create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
    assert "a server with 2 workers has no such sessions" in client.post("/mcp", json=create).json()["error"]["message"]


def test_sessions_over_http_that_expired_are_forgotten(toys):
    now = [0.0]
    served_app = create_openenv_app(Settings(envs={"counter": {}}, session_ttl=100), clock=lambda: now[0])
    create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
    with TestClient(served_app) as client:
        client.post("/mcp", json=create)
        (env,) = [weakref.ref(session.env) for session in served_app.state.sessions._open.values()]
        now[0] = 200.0
        client.portal.call(served_app.state.expire)
        client.post("/mcp", json=create)
        assert env() is None


def test_an_empty_split_draws_no_task(monkeypatch):
    class Partial(toy.Counter):
        @property
        def spec(self):
            return replace(super().spec, splits={"train": (), "test": range(40, 50)})

    monkeypatch.setattr("agentgym_rl.envs.registry.env_class", lambda name: Partial)
    served = Served("counter", {}, Sessions(1, 1.0), Metrics())
    with pytest.raises(wire.Fault, match="counter train has no task; choose another of the splits train, test"):
        served.choose({})
    assert served.choose({"split": "test", "seed": 1}).index >= 40


def test_a_part_is_played_under_the_name_that_the_server_has_with_the_rules_of_a_file(monkeypatch, tmp_path):
    class Offering:
        def offer(self, name):
            return Offer("ws://a", "", "maze", "", {})

    requests = []

    async def start(self, data):
        requests.append(data)
        return Observation("A wall above you.")

    said = [{"from": speaker, "value": text} for speaker, text in zip(["human", "gpt", "human"], "abc", strict=True)]
    said[2]["value"] = "The rules.\nThe goal is at position 1, 2. Your current position is at position 3, 4. Walls."
    file = tmp_path / "said.json"
    file.write_text(json.dumps([{"item_id": "maze_3", "conversations": said}]))
    monkeypatch.setattr(OpenEnvSession, "_start", start)
    env = OpenEnvSession("maze-far", {"instruction_of": str(file)}, Offering())
    here = make("maze", instruction_of=str(file))
    told = asyncio.run(env.reset(Task("maze-far", 3)))
    assert told == here._opened(Observation("A wall above you.")) and requests == [{"item_id": "maze_3"}]


def test_a_task_api_that_is_none_is_named(monkeypatch):
    async def answer(session, url, seconds, body):
        return {"/schema": {"action": {}}, "/list_environments": ["x"], "/splits": ["train"]}.get(
            url[url.rindex("/") :]
        )

    monkeypatch.setattr("agentgym_rl.envs.protocol.openenv.client._request", answer)
    with pytest.raises(ProtocolError, match="ws://a does not tell its splits as OpenEnv's Task API does"):
        asyncio.run(ask("ws://a", "x"))


# ---------------------------------------------------------------------------------------------- client and server


@pytest.mark.parametrize("name", ["textcraft", "maze", "wordle", "todo", "searchqa"])
def test_an_episode_is_the_same_through_the_wire(name):
    here = make(name)
    task = Task(name, here.spec.splits["test"][0])

    async def seen(env):
        seen_steps = [(await env.reset(task)).text]
        for command in here.oracle(task):
            step = await env.step(command)
            seen_steps.append((step.observation, step.reward, step.terminated, step.truncated, step.info["invalid"]))
        await env.close()
        return seen_steps

    with serving(name) as address:
        there = host(address)
        asyncio.run(there.check(name))
        assert asyncio.run(seen(there.open(name, {}))) == asyncio.run(seen(here))


def test_any_server_is_an_environment(counter):
    async def play():
        place = host(counter)
        await place.check("openenv")
        env = place.open("openenv", {})
        assert {split: len(indices) for split, indices in env.spec.splits.items()} == {"train": 40, "test": 10}
        assert "Count up" in opening(env.spec, "agentgym", ActionFormat.REACT)[0]["content"]
        assert (
            reader(env.spec, ActionFormat.REACT)(write(env.spec, ActionFormat.REACT, "say 1", "so")).command == "say 1"
        )
        first = await env.reset(Task("openenv", 40))
        steps = [await env.step("say 1")]
        with pytest.raises(TaskNotFound, match="valid are 0 to 49"):
            await env.reset(Task("openenv", 50))
        await env.close()
        return first, steps

    first, steps = asyncio.run(play())
    assert (first.text, steps[0].observation.text, steps[0].observation.actions) == (
        "Count to 2.",
        "Right.",
        ("say 1", "say 2", "say 3"),
    )


def test_every_episode_of_a_session_is_paid_anew(counter):
    async def play():
        env, rewards = host(counter).open("counter", {}), []
        for _ in range(2):
            await env.reset(Task("counter", 0))
            rewards.append((await env.step("say 1")).reward)
        await env.close()
        return rewards

    assert asyncio.run(play()) == [1.0, 1.0]


def test_policies_play(counter):
    place = host(counter)
    settings = RolloutSettings()

    async def play():
        oracle = await Oracle().run(place.open("counter", {}), Task("counter", 41), settings)
        chance = [await Random(0).run(place.open("openenv", {}), Task("openenv", n), settings) for n in range(30)]
        return oracle, chance

    oracle, chance = asyncio.run(play())
    assert oracle.success and oracle.ending.value == "terminated"
    assert all(episode.ending.value == "terminated" for episode in chance)
    assert {episode.reward for episode in chance} == {0.0, 1.0}


def test_tools_of_a_server_are_called():
    with serving("todo") as address:
        place = host(address)
        env = place.open("openenv", {"action": "tools"})
        asyncio.run(place.check("openenv", {"action": "tools"}))
    assert [tool.schema for tool in env.spec.tools] == [tool.schema for tool in make("todo").spec.tools]


def test_a_server_may_have_a_part(toys):
    async def play(place, name):
        await place.check(name)
        env = place.open(name, {})
        first = await env.reset(Task(name, 1))
        await env.close()
        return first.text

    with serving("counter-far") as address:
        assert [asyncio.run(play(host(address), name)) for name in ("counter-far", "counter")] == ["Count to 2."] * 2


def test_other_tasks_and_other_environments_are_refused(toys, monkeypatch):
    with serving("counter") as address:
        with pytest.raises(ProtocolError, match="has the environment counter, not maze"):
            asyncio.run(host(address).check("maze"))
        monkeypatch.setattr("toy.Counter.difficulty", lambda self, task: "other")
        with pytest.raises(ProtocolError, match="has other tasks of counter in test, train"):
            asyncio.run(host(address).check("counter"))


# ---------------------------------------------------------------------------------------------- the client, and
# servers of others

RECORDED = {
    "echo": (
        {"properties": {"metadata": {"type": "object"}, "message": {"type": "string"}}, "required": ["message"]},
        [
            {"observation": {"echoed_message": "Ready!", "message_length": 0}, "reward": 0.0, "done": False},
            {
                "observation": {"echoed_message": "hello", "message_length": 5, "metadata": {"step": 1}},
                "reward": 0.5, "done": False, "metadata": {"step": 1},
            },
        ],
    ),
    "web": (
        {"properties": {"action_str": {"type": "string"}}, "required": ["action_str"]},
        [
            {"observation": {"text": "A page.", "url": "about:blank", "error": ""}, "reward": None, "done": False},
            {"observation": {"text": "Bought.", "url": "x", "error": ""}, "reward": 3, "done": True},
        ],
    ),
    "tools": (
        {"properties": {"type": {"const": "call_tool"}, "tool_name": {"type": "string"}, "arguments": {}}},
        [
            {"observation": {"metadata": {"prompt": "Echo."}}, "reward": None, "done": False},
            {
                "observation": {
                    "tool_name": "echo", "error": None,
                    "result": {"content": [{"type": "text", "text": "hi"}], "data": "hi", "is_error": False},
                },
                "reward": True, "done": True, "metadata": {"terminated": False, "truncated": True},
            },
        ],
    ),
    "grid": (
        {"properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x"]},
        [
            {"observation": {"board": [[0, 1]]}, "reward": 0, "done": False},
            {"observation": {"messages": [{"content": "one"}, {"content": "two"}]}, "reward": -1, "done": False},
        ],
    ),
}  # fmt: skip
"""Schemas and messages as servers of OpenEnv 0.10 send them."""

TOOL = {
    "name": "echo",
    "description": "Echo.",
    "input_schema": {"type": "object", "properties": {"message": {"type": "string"}}},
}


@dataclass
class StandIn:
    """A server that talks as OpenEnv's do, and remembers what it was asked."""

    schema: dict
    results: list
    asked: list = field(default_factory=list)
    tools: list = field(default_factory=list)
    answer: object = None
    """In place of the result of a step: a message, seconds to wait, or None to close the socket."""
    broken: bool = False
    hasty: bool = False
    """It closes the socket after a reset."""
    stateless: bool = False
    """It has no state before a reset, as OpenEnv's ``repl_env``."""

    def app(self):
        app = web.Application()
        app.router.add_get("/schema", self._schema)
        app.router.add_get("/metadata", self._metadata)
        app.router.add_post("/mcp", self._mcp)
        app.router.add_get("/ws", self._ws)
        return app

    async def _schema(self, request):
        return web.json_response({"action": self.schema, "observation": {}, "state": {}})

    async def _metadata(self, request):
        return web.json_response({"name": "StandIn", "description": "Say something."})

    async def _mcp(self, request):
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"tools": self.tools}})

    async def _ws(self, request):
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        results = iter(self.results)
        async for message in ws:
            body = json.loads(message.data)
            self.asked.append(body)
            if body["type"] == "reset":
                results = iter(self.results)
            if body["type"] == "close":
                break
            if body["type"] == "state":
                assert "data" not in body, "OpenEnv's servers refuse it"
                fault = {"message": "Environment not initialized.", "code": "EXECUTION_ERROR"}
                await ws.send_json(
                    {"type": "error", "data": fault} if self.stateless else {"type": "state", "data": {}}
                )
            elif body["type"] == "step" and self.broken:
                if self.answer is None:
                    break
                if isinstance(self.answer, float):
                    await asyncio.sleep(self.answer)
                await ws.send_json(self.answer)
            else:
                await ws.send_json({"type": "observation", "data": next(results)})
                if self.hasty:
                    break
        return ws


@contextmanager
def standing_in(stand_in):
    loop, ready, shared = asyncio.new_event_loop(), threading.Event(), {}

    async def serve():
        runner = web.AppRunner(stand_in.app(), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        shared["address"] = f"127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        shared["done"] = asyncio.Event()
        ready.set()
        await shared["done"].wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait(10)
    try:
        yield shared["address"]
    finally:
        loop.call_soon_threadsafe(shared["done"].set)
        thread.join(20)
        loop.close()


def recorded(name, **options):
    schema, results = RECORDED[name]
    return StandIn(schema, results, tools=[TOOL] if name == "tools" else [], **options)


@pytest.mark.parametrize(
    ("name", "options", "command", "sent", "texts", "reward", "ended"),
    [
        (
            "echo", {"observation": "echoed_message"}, "hello", {"message": "hello"}, ("Ready!", "hello"), 0.5,
            (False, False),
        ),
        ("echo", {"full_reward": 2}, "hello", {"message": "hello"}, None, 0.25, (False, False)),
        (
            "web", {"full_reward": 3}, "click('12')", {"action_str": "click('12')"}, ("A page.", "Bought."), 1.0,
            (True, False),
        ),
        (
            "tools", {}, 'echo with Action Input: {"message": "hi"}',
            {"type": "call_tool", "tool_name": "echo", "arguments": {"message": "hi"}}, ("{}", "hi"), 1.0,
            (False, True),
        ),
        ("grid", {}, 'act with Action Input: {"x": 2}', {"x": 2}, ("[[0, 1]]", "one\ntwo"), 0.0, (False, False)),
    ],
)  # fmt: skip
def test_recorded_servers_are_played(name, options, command, sent, texts, reward, ended):
    stand_in = recorded(name)

    async def play(address):
        place = host(address)
        await place.check("openenv", options)
        env = place.open("openenv", options)
        assert "Say something." in env.spec.instructions["compact"]
        first = await env.reset(Task("openenv", 7))
        step = await env.step(command)
        await env.close()
        return first, step

    with standing_in(stand_in) as address:
        first, step = asyncio.run(play(address))
    assert [message["data"] for message in stand_in.asked if "data" in message] == [{"seed": 7}, sent]
    assert texts is None or (first.text, step.observation.text) == texts
    assert (step.reward, (step.terminated, step.truncated)) == (reward, ended)
    assert step.info["raw_reward"] == RECORDED[name][1][1]["reward"]


def test_a_call_that_fits_no_tool_stays_with_the_agent():
    stand_in = recorded("tools")

    async def play(address):
        env = host(address).open("openenv", {})
        await env.reset(Task("openenv", 0))
        steps = [
            await env.step(command)
            for command in ("hi", "fly with Action Input: {}", 'echo with Action Input: {"message": 3}')
        ]
        await env.close()
        return steps

    with standing_in(stand_in) as address:
        steps = asyncio.run(play(address))
    assert all(step.info["invalid"] and step.observation.text.startswith("Error: ") for step in steps)
    assert [message["type"] for message in stand_in.asked] == ["state", "reset", "close"]


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (None, EnvUnavailable, "closed the socket"),
        (1.5, EnvTimeout, "no answer within 0.5 s"),
        ({"type": "error", "data": {"message": "boom", "code": "EXECUTION_ERROR"}}, EnvFault, "boom"),
        ({"type": "error", "data": {"message": "gone", "code": "SESSION_ERROR"}}, EnvUnavailable, "gone"),
        ({"type": "error", "data": {"message": "full", "code": "CAPACITY_REACHED"}}, EnvUnavailable, "full"),
        ({"type": "error", "data": {"message": "what", "code": "UNKNOWN_TYPE"}}, ProtocolError, "what"),
        ({"type": "observation"}, ProtocolError, "no message of OpenEnv"),
        ({"type": "observation", "data": {"observation": 3}}, ProtocolError, "no result of OpenEnv"),
        ({"type": "observation", "data": {"observation": {}, "reward": "x"}}, ProtocolError, "'x' is no number"),
        ({"type": "observation", "data": {"observation": {}, "reward": 10**400}}, ProtocolError, "0' is no number"),
    ],
)
def test_failures_of_a_server_are_no_episodes(answer, error, text):
    stand_in = recorded("echo", broken=True, answer=answer)

    async def play(address):
        env = host(address, timeout=0.5).open("openenv", {})
        await env.reset(Task("openenv", 0))
        with pytest.raises(error, match=text):
            await env.step("hello")
        with pytest.raises(ProtocolError, match="reset first"):
            await env.step("hello")
        stand_in.broken = False
        await env.reset(Task("openenv", 0))
        assert (await env.step("hello")).reward == 0.5
        await env.close()

    with standing_in(stand_in) as address:
        asyncio.run(play(address))


def test_an_environment_may_have_no_state_before_a_reset():
    async def play(address):
        await host(address).check("openenv")
        env = host(address).open("openenv", {})
        await env.reset(Task("openenv", 0))
        step = await env.step("hello")
        await env.close()
        return step.reward

    with standing_in(recorded("echo", stateless=True)) as address:
        assert asyncio.run(play(address)) == 0.5


def test_a_malformed_action_is_the_agents_mistake():
    refused = {"type": "error", "data": {"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": []}}
    stand_in = recorded("echo", broken=True, answer=refused)

    async def play(address):
        env = host(address).open("openenv", {})
        await env.reset(Task("openenv", 0))
        step = await env.step("hello")
        stand_in.broken = False
        assert (await env.step("hello")).reward == 0.5
        await env.close()
        return step

    with standing_in(stand_in) as address:
        step = asyncio.run(play(address))
    assert step.info["invalid"] and step.observation.text == "Error: Invalid message" and not step.done


def test_a_reset_that_is_refused_names_the_server(monkeypatch, counter):
    monkeypatch.setattr("agentgym_rl.envs.openenv.OpenEnv.reset_data", lambda self, task: {"seed": -1})

    async def play():
        env = host(counter).open("openenv", {})
        with pytest.raises(ProtocolError, match=rf"reset at ws://{counter}/ws: seed is '-1'"):
            await env.reset(Task("openenv", 0))
        await env.close()

    asyncio.run(play())


def test_a_session_outlives_a_turn_that_takes_longer_than_the_servers_pings(toys):
    async def play(address):
        before = asyncio.all_tasks()
        env = host(address).open("counter", {})
        await env.reset(Task("counter", 1))
        await asyncio.sleep(1.0)
        step = await env.step("say 1")
        await env.close()
        return step.observation.text, asyncio.all_tasks() - before

    with serving("counter", ping_s=0.3) as address:
        assert asyncio.run(play(address)) == ("Right.", set())


@pytest.mark.parametrize("pause", [0.0, 0.1])
def test_a_server_that_closes_between_two_steps_is_found_out_by_each_later_one(pause):
    stand_in = recorded("echo", hasty=True)

    async def play(address):
        socket = await Socket.open(f"ws://{address}", None, 5.0)
        await socket.request("reset", {})
        await asyncio.sleep(pause)
        for _ in range(2):
            with pytest.raises(http_client.Absent, match=rf"step at ws://{address}/ws: the server closed the socket"):
                await socket.request("step", {"message": "hello"})
        await socket.close()
        return asyncio.all_tasks() - {asyncio.current_task()}

    with standing_in(stand_in) as address:
        assert asyncio.run(play(address)) == set()


def test_a_full_server_is_waited_for_as_long_as_patience(toys, searches):
    async def play(address):
        place, task = host(address, patience=5.0), Task("counter", 1)
        first, second = place.open("counter", {}), place.open("counter", {})
        await first.reset(task)
        waiting = asyncio.create_task(second.reset(task))
        (member,) = place.sockets.get().members
        while not member.failures and not waiting.done():
            await asyncio.sleep(0.01)
        assert "1 sessions are open" in member.fault and not waiting.done()
        await first.close()
        text = (await waiting).text
        await second.close()
        hurried = host(address, patience=0.05)
        await first.reset(task)
        searches.clear()
        with pytest.raises(EnvUnavailable, match=r"nothing answered within 0\.05 s .*1 sessions are open"):
            await hurried.open("counter", {}).reset(task)
        assert len(searches) == 1
        await first.close()
        return text

    with serving("counter", max_sessions=1) as address:
        assert asyncio.run(play(address)) == "Count to 2."


def test_the_pool_learns_of_a_server_that_ends_in_an_episode():
    stand_in = recorded("echo", broken=True)

    async def play(address):
        place = host(address)
        env = place.open("openenv", {})
        await env.reset(Task("openenv", 0))
        with pytest.raises(EnvUnavailable, match="closed the socket"):
            await env.step("hello")
        (member,) = place.sockets.get().members
        failures = member.failures, "closed the socket" in member.fault
        await env.reset(Task("openenv", 0))
        await env.close()
        return failures, member.failures

    with standing_in(stand_in) as address:
        assert asyncio.run(play(address)) == ((1, True), 0)


def test_a_failed_episode_is_run_again_and_masked():
    stand_in = recorded("echo", broken=True)
    settings = RolloutSettings(retries=1)
    with standing_in(stand_in) as address:
        policy = Function(lambda messages: "Action:\nhello")
        episode = asyncio.run(policy.run(host(address).open("openenv", {}), Task("openenv", 0), settings))
    assert (episode.ending.value, episode.ending.counts, episode.attempts) == ("env_error", False, 2)


def test_no_server_is_one_clear_error():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(EnvUnavailable, match=rf"GET http://{address}/schema: Cannot connect"):
            host(address).open("openenv", {})
    with pytest.raises(EnvUnavailable, match=r"give its address, such as ws://127.0.0.1:8000"):
        asyncio.run(make("openenv").reset(Task("openenv", 0)))


def test_wrong_settings_are_one_line():
    with pytest.raises(ValueError, match=r"http:// and ws:// are servers of two kinds"):
        HostSettings.of({"address": "ws://a:1,http://b:2"})
    with pytest.raises(ValueError, match="full_reward is 0"):
        make("openenv", full_reward=0)
    with standing_in(recorded("echo")) as address:
        with pytest.raises(ProtocolError, match=r"action=command, but the actions of ws://.* have the fields message"):
            host(address).open("openenv", {"action": "command"})
        with pytest.raises(ProtocolError, match=r"action=tools, but .* lists no tools"):
            host(address).open("openenv", {"action": "tools"})
        env = host(address).open("openenv", {"instruction": "Be brief.", "max_turns": 3, "success_above": 0.1})
        assert env.spec.max_turns == 3 and env.spec.success(0.2) and "Be brief." in env.spec.instructions["compact"]
        assert indices_of(env, "test") == range(100)
