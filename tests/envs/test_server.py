"""The server in process: the protocol of each environment, malformed requests, limits and the life of sessions."""

import asyncio
import json
from dataclasses import replace
from typing import ClassVar

import httpx
import pytest
import toy
from starlette.testclient import TestClient

from agentgym_rl.envs import available, make
from agentgym_rl.envs.actions import parse_line
from agentgym_rl.envs.core import EnvUnavailable, Task
from agentgym_rl.envs.numbering import digests
from agentgym_rl.envs.protocol.client.offers import Offer
from agentgym_rl.envs.protocol.server import Settings, create_app
from agentgym_rl.envs.protocol.server.sessions import Full, Sessions
from agentgym_rl.envs.protocol.wire import MAX_SESSION, dialect

ELSEWHERE = ("harness", "mcp", "miniwob", "openenv", "webarena")
"""They need servers of others, or a browser."""
WORLDS = [
    pytest.param(name, marks=[pytest.mark.java] * (name == "sciworld")) for name in available() if name not in ELSEWHERE
]
HUGE = "a" * 500_000
COMMANDS = {"sciworld": ["look around", "inventory", "nonsense"]}
"""Instead of an oracle that takes its time."""


def connect(*worlds, **settings):
    """A client of a server in this process; entering it starts the server, leaving it stops it."""
    app = create_app(Settings(envs={world: {} for world in worlds}, **settings))
    return TestClient(app, raise_server_exceptions=False)


def opened(client, path=""):
    """A fresh session of an environment of the family with ``id``."""
    return client.post(f"{path}/create", json={}).json()["id"]


@pytest.fixture
def counter(toys):
    with connect("counter") as client:
        yield client


def test_integers_in_digits_are_taken_as_agentgym_does(counter):
    session = opened(counter)
    for index in ("3", " +3 ", "3.0", 3.0):
        assert "observation" in counter.post("/reset", json={"id": str(session), "data_idx": index}).json()
    for index in ("3.5", 3.5, "three", "", [3], "9" * 5000):
        assert counter.post("/reset", json={"id": session, "data_idx": index}).status_code == 422


@pytest.mark.parametrize("name", WORLDS)
def test_an_episode_is_the_same_through_the_wire(name):
    words, env = dialect(name), make(name)
    index = env.spec.splits["test"][0]
    commands = COMMANDS[name] if name in COMMANDS else env.oracle(Task(name, index))[:15]
    with connect(name) as client:
        assert client.get("/").json() == client.get(f"/{name}").json()
        session = words.new_session(client.post("/create", json=words.create_body).json())
        assert 0 <= session < MAX_SESSION
        reply = client.post("/reset", json=words.reset_body(session, index)).json()
        first = asyncio.run(env.reset(Task(name, index)))
        assert words.read_reset(reply).text == first.text
        seen = words.read_observation(client.get("/observation", params={words.key: session}).json())
        assert first.text == seen.text or words.read_reset(reply) != seen
        total = 0.0
        for command in commands:
            here = asyncio.run(env.step(command))
            body = words.step_body(session, words.write_action(env.spec, command))
            there = words.read_step(client.post("/step", json=body).json(), total)
            total += there.reward
            assert (there.observation.text, there.reward) == (here.observation.text, here.reward)
            assert (there.terminated, there.truncated) == (here.terminated, here.truncated)
            assert there.info["invalid"] == here.info["invalid"]
        if here.done:
            refused = client.post("/step", json=body)
            assert "finished" in refused.text and refused.status_code == (200 if words.key == "id" else 409)
        assert client.post("/close", json={words.key: session}).json() in (True, {"closed": "closed"})
        assert client.post("/close", json={words.key: session}).json() in (False, {"closed": "unknown"})
        gone = client.post("/step", json=words.step_body(session, "x"))
        assert "not valid" in gone.text and gone.status_code == (200 if words.key == "id" else 404)
    asyncio.run(env.close())


@pytest.mark.parametrize("name", WORLDS)
def test_a_huge_action_is_not_sent_back(name):
    words, env = dialect(name), make(name)
    with connect(name) as client:
        session = words.new_session(client.post("/create", json=words.create_body).json())
        for action in (HUGE, f"Action: {HUGE}", f"go to {HUGE}", f"get 1 {HUGE}", f"<search> {HUGE} </search>"):
            client.post("/reset", json=words.reset_body(session, env.spec.splits["test"][0]))
            response = client.post("/step", json=words.step_body(session, action))
            assert response.status_code == 200 and len(response.content) < 20_000


def test_several_worlds_have_a_path_each():
    with connect("textcraft", "maze") as client:
        assert client.get("/").json() == "Environments: textcraft, maze"
        number = opened(client, "/textcraft")
        assert "error" in client.post("/maze/reset", json={"id": number, "game": 3}).json()
        assert "observation" in client.post("/textcraft/reset", json={"id": number}).json()
        assert client.post("/reset", json={"id": number}).status_code == 404
        maze = opened(client, "/maze")
        assert "goal" in client.post("/maze/reset", json={"id": maze, "game": 3}).json()["observation"]


def test_textcraft_creates_with_a_task_as_agentgym_does(counter):
    body = {"minecraft_dir": "agentenv_textcraft/", "commands": None, "goal": None}
    with connect("textcraft") as client:
        reply = client.post("/create", json=body).json()
        assert reply["observation"].startswith("Crafting commands:") and reply["done"] is False
        assert client.post("/step", json={"id": reply["id"], "action": "inventory"}).json()["reward"] == 0
        assert "not offered" in client.post("/create", json={"commands": "craft", "goal": "x"}).json()["error"]


def test_the_further_pages_of_a_session(counter):
    number = opened(counter)
    counter.post("/reset", json={"id": number, "data_idx": 1})
    assert counter.get("/available_actions", params={"id": number}).json() == ["say 1", "say 2", "say 3"]
    counter.post("/step", json={"id": number, "action": "say 1"})
    assert counter.get("/observation", params={"id": number}).json() == "Right."
    detail = counter.get("/detail", params={"id": number}).json()
    assert detail == {"observation": "Right.", "reward": 0.0, "score": 0.0, "done": False, "deleted": False}


def test_wordles_words_are_there_before_the_first_reset():
    with connect("wordle") as client:
        vocabulary = client.get("/wordle/filtered_vocab", params={"id": opened(client)}).json()
        assert len(vocabulary) > 100 and all(len(word) == 5 for word in vocabulary)


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("/step", b"", "not JSON"),
        ("/step", b"{", "not JSON"),
        ("/step", b"[" * 100_000, "not JSON"),
        ("/step", b'{"id": 1, "action": "\xff"}', "not JSON"),
        ("/step", b"[1]", "JSON object"),
        ("/create", b"3", "JSON object"),
        ("/step", b'{"action": "x"}', "is missing"),
        ("/step", b'{"id": null, "action": "x"}', "is missing"),
        ("/step", b'{"id": "one", "action": "x"}', "integer"),
        ("/step", b'{"id": 1.5, "action": "x"}', "integer"),
        ("/step", b'{"id": true, "action": "x"}', "integer"),
        ("/reset", b'{"id": NUMBER}', "is missing"),
        ("/reset", b'{"id": NUMBER, "data_idx": "first"}', "integer"),
        ("/reset", b'{"id": NUMBER, "data_idx": 1e999}', "integer"),
        ("/step", b'{"id": NUMBER}', "is missing"),
        ("/step", b'{"id": NUMBER, "action": 7}', "string"),
        ("/step", b'{"id": NUMBER, "action": "\\ud800"}', "surrogate"),
        ("/close", b"{}", "is missing"),
    ],
)
def test_malformed_requests_are_422(counter, path, body, problem):
    raw = body.replace(b"NUMBER", str(opened(counter)).encode())
    response = counter.post(path, content=raw, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert problem in response.json()["detail"][0]["msg"]


@pytest.mark.parametrize("query", ["", "?id=", "?id=x", "?id=-1", "?id=1.5", "?id=%ff", "?id=" + "9" * 50])
def test_malformed_parameters_are_422(counter, query):
    assert counter.get(f"/observation{query}").status_code == 422


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("/step", {"id": 3, "action": "x"}, "not valid"),
        ("/reset", {"id": 3, "data_idx": 0}, "not valid"),
        ("/step", {"id": -1, "action": "x"}, "not valid"),
        ("/step", {"id": 10**100, "action": "x"}, "not valid"),
        ("/step", {"id": ..., "action": "x"}, "reset it first"),
        ("/reset", {"id": ..., "data_idx": -1}, "no task -1"),
        ("/reset", {"id": ..., "data_idx": 10**30}, "no task"),
        ("/reset", {"id": ..., "data_idx": 999}, "outside"),
    ],
)
def test_errors_of_the_environment_come_under_200(counter, path, body, problem):
    number = opened(counter)
    response = counter.post(path, json={key: number if value is ... else value for key, value in body.items()})
    assert response.status_code == 200 and problem in response.json()["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "kind"),
    [
        ("/step", {"env_idx": 3, "action": "x"}, 404, "UnknownSession"),
        ("/step", {"env_idx": ..., "action": "x"}, 409, "ProtocolError"),
        ("/reset", {"env_idx": ..., "id": 999}, 404, "TaskNotFound"),
        ("/reset", {"env_idx": ...}, 409, "ProtocolError"),
        ("/step", {"action": "x"}, 422, None),
    ],
)
def test_the_other_family_has_statuses(family_b, path, body, status, kind):
    number = family_b.post("/create", json={"id": 0}).json()
    response = family_b.post(path, json={key: number if value is ... else value for key, value in body.items()})
    assert (response.status_code, response.json().get("type")) == (status, kind)


def test_the_other_family_resets_to_the_same_task_and_reads_replies(family_b):
    number = family_b.post("/create", json={"id": 0}).json()
    assert family_b.post("/reset", json={"env_idx": number, "id": 1}).json() == "Count to 2."
    reply = family_b.post("/step", json={"env_idx": number, "action": "Thought: easy.\nAction: say 1"}).json()
    assert reply["observation"] == "Right."
    assert family_b.post("/reset", json={"env_idx": number}).json() == "Count to 2."
    reply = family_b.post("/step", json={"env_idx": number, "action": "Action: say 1\nAction: say 2"}).json()
    assert "found 2" in reply["observation"] and reply["info"] == {"invalid": True} and reply["done"] is False
    assert family_b.get("/observation", params={"env_idx": number}).json() == reply["observation"]


@pytest.fixture
def family_b(toys, monkeypatch):
    """The counting environment as if it were one of AgentGym's tool envs."""

    class Todo(toy.Counter):
        name = "todo"

        @property
        def spec(self):
            return replace(super().spec, read=parse_line)

    monkeypatch.setattr("agentgym_rl.envs.registry.env_class", lambda name: Todo)
    with connect("todo") as client:
        yield client


def test_a_body_over_the_limit_is_413(toys):
    with connect("counter", body_limit=100) as client:
        number = opened(client)
        assert client.post("/step", json={"id": number, "action": "a" * 100}).status_code == 413
        chunks = iter([b"{", b" " * 200, b"}"])
        kind = {"content-type": "application/json"}
        assert client.post("/step", content=chunks, headers=kind).status_code == 413
        assert client.post("/step", json={"id": number, "action": "a"}).status_code == 200


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_only_json_is_taken_so_that_no_web_page_can_send_it(counter, kind):
    headers = {} if kind is None else {"content-type": kind}
    assert counter.post("/create", content=b"{}", headers=headers).status_code == 415
    assert counter.post("/create", json={}, headers={"content-type": "application/json; charset=utf-8"}).is_success


def test_pages_of_others_open_no_sessions(counter):
    assert counter.post("/create", headers={"origin": "http://elsewhere"}).status_code == 403
    assert counter.post("/create", headers={"origin": "http://testserver"}).status_code == 200


def test_other_methods_and_paths(counter):
    response = counter.get("/step")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert counter.post("/observation", json={}).status_code == 405
    assert counter.get("/nothing").status_code == 404


def test_a_token_is_wanted_everywhere_but_for_health(toys):
    with connect("counter", token="s3cret") as client:
        for path in ("/create", "/metrics", "/docs", "/openapi.json", "/", "/nothing"):
            response = client.request("POST" if path == "/create" else "GET", path)
            assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
        for wrong in ("s3cret", "Bearer ", "Bearer s3cre", "Bearer s3cret ", "Basic s3cret"):
            assert client.post("/create", headers={"authorization": wrong + "x"}).status_code == 401
        assert client.post("/create", headers={"authorization": "Bearer s3cret"}).status_code == 200
        assert client.get("/health").json() == {"status": "ok", "envs": ["counter"]}


def test_over_the_cap_is_503_until_one_closes(toys):
    with connect("counter", max_sessions=2) as client:
        first, _ = opened(client), opened(client)
        response = client.post("/create", json={})
        assert response.status_code == 503 and "2 sessions are open" in response.json()["detail"]
        client.post("/close", json={"id": first})
        assert client.post("/create", json={}).status_code == 200


def test_unused_sessions_expire(toys):
    now = [0.0]
    app = create_app(Settings(envs={"counter": {}}, session_ttl=100), clock=lambda: now[0])
    with TestClient(app) as client:
        old, used = opened(client), opened(client)
        now[0] = 60
        client.post("/reset", json={"id": used, "data_idx": 1})
        now[0] = 130
        client.portal.call(app.state.expire)
        assert "not valid" in client.post("/reset", json={"id": old, "data_idx": 1}).json()["error"]
        assert client.get("/observation", params={"id": used}).json() == "Count to 2."
        counted = client.get("/metrics").text
        assert 'agentgym_sessions_expired_total{env="counter"} 1.0' in counted
        assert 'agentgym_sessions_open{env="counter"} 1.0' in counted


def test_a_session_that_is_used_while_others_close_does_not_expire():
    now = [0.0]
    sessions = Sessions(limit=2, ttl=100, clock=lambda: now[0])

    class Lingering(toy.Counter):
        async def _close(self):
            sessions.use(used)

    old, used = sessions.open("counter", Lingering), sessions.open("counter", toy.Counter)
    now[0] = 200.0
    assert asyncio.run(sessions.expire()) == ["counter"]
    assert (old.closed, used.closed) == (True, False)


def test_a_session_that_hangs_as_it_closes_does_not_keep_others_from_expiring(monkeypatch, caplog):
    monkeypatch.setattr("agentgym_rl.envs.protocol.server.sessions.CLOSE_S", 0.05)
    now, go_on = [0.0], asyncio.Event()
    sessions = Sessions(limit=2, ttl=100, clock=lambda: now[0])

    class Hanging(toy.Counter):
        async def _close(self):
            await go_on.wait()

    async def main():
        sessions.open("hanging", Hanging)
        other = sessions.open("counter", toy.Counter)
        now[0] = 200.0
        assert await sessions.expire() == ["hanging", "counter"]
        assert other.closed and len(sessions) == 0
        assert await sessions.expire() == []
        ending = asyncio.create_task(sessions.close_all())
        await asyncio.sleep(0.01)
        assert not ending.done()
        go_on.set()
        await ending

    asyncio.run(main())
    assert "a session of hanging takes longer than 0.05 s to close" in caplog.text


def test_a_session_that_cannot_be_closed_does_not_hold_up_the_end(slow, monkeypatch, caplog):
    async def hang(self):
        await asyncio.Event().wait()

    monkeypatch.setattr("agentgym_rl.envs.protocol.server.app.CLOSE_S", 0.01)
    monkeypatch.setattr(Slow, "_close", hang)
    with TestClient(slow) as client:
        opened(client)
    assert "the sessions were not closed within 0.01 s" in caplog.text


@pytest.mark.parametrize("empty", ["train", "test"])
def test_a_split_may_be_empty(monkeypatch, empty):
    class Partial(toy.Counter):
        @property
        def spec(self):
            return replace(super().spec, splits={**super().spec.splits, empty: ()})

    monkeypatch.setattr("agentgym_rl.envs.registry.env_class", lambda name: Partial)
    client = TestClient(create_app(Settings(envs={"counter": {}})))
    assert client.get("/numbering").json()["splits"].keys() == {"train", "test"}
    assert Offer.of(dialect("todo"), "http://a", Partial().spec, {}, None).unavailable == {}


def test_every_worker_tells_the_digests_of_the_splits(toys, tmp_path):
    settings = Settings(envs={"counter": {}}, workers=2)
    for worker in range(2):
        told = TestClient(create_app(settings, worker, tmp_path)).get("/numbering")
        assert told.json() == {"env": "counter", "splits": digests(make("counter"))}


def test_the_server_looks_for_unused_sessions_itself(toys):
    app = create_app(Settings(envs={"counter": {}}, session_ttl=0.02))
    with TestClient(app) as client:
        opened(client)

        async def gone():
            while len(app.state.sessions):
                await asyncio.sleep(0.01)

        client.portal.call(asyncio.wait_for, gone(), 10)


class Slow(toy.Counter):
    """Notes what it does, and lets others go on in the middle of it."""

    name = "slow"
    log: ClassVar[list[str]] = []
    now: ClassVar[float] = 0.0

    async def _step(self, action):
        if action == "die":
            raise RuntimeError("a fault of the world's")
        if action == "vanish":
            raise EnvUnavailable("the world has died")
        self.log.append(f"start {action}")
        await asyncio.sleep(0.01)
        self.log.append(f"end {action}")
        return await super()._step(action)

    async def _close(self):
        self.log.append("close")
        if self._target == 3:
            raise RuntimeError("cannot close")


@pytest.fixture
def slow(monkeypatch):
    monkeypatch.setattr("agentgym_rl.envs.registry.env_class", lambda name: Slow)
    Slow.log, Slow.now = [], 0.0
    return create_app(Settings(envs={"slow": {}}, session_ttl=100), clock=lambda: Slow.now)


def test_steps_of_one_session_wait_for_each_other_and_a_step_is_never_expired(slow):
    async def run():
        transport = httpx.ASGITransport(slow)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            number = (await client.post("/create")).json()["id"]
            await client.post("/reset", json={"id": number, "data_idx": 1})
            steps = [client.post("/step", json={"id": number, "action": f"say {n}"}) for n in (1, 2)]
            running = asyncio.gather(*steps, client.post("/close", json={"id": number}))
            await asyncio.sleep(0.005)
            Slow.now = 1000.0
            await slow.state.expire()
            return [response.json() for response in await running]

    first, second, closed = asyncio.run(run())
    assert (first["observation"], second["observation"], closed) == ("Right.", "Done.", True)
    assert Slow.log == ["start say 1", "end say 1", "start say 2", "end say 2", "close"]


def test_a_session_is_in_use_until_its_step_has_ended(slow):
    async def run():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(slow), base_url="http://here") as client:
            number = (await client.post("/create")).json()["id"]
            await client.post("/reset", json={"id": number, "data_idx": 1})
            step = asyncio.ensure_future(client.post("/step", json={"id": number, "action": "say 1"}))
            while not Slow.log:
                await asyncio.sleep(0)
            Slow.now = 1000.0
            await step
            await slow.state.expire()
            return (await client.post("/step", json={"id": number, "action": "say 2"})).json()

    assert asyncio.run(run())["observation"] == "Done."


def test_a_step_that_waited_for_a_close_is_told_so(slow):
    async def run():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(slow), base_url="http://here") as client:
            number = (await client.post("/create")).json()["id"]
            await client.post("/reset", json={"id": number, "data_idx": 1})
            body = {"id": number, "action": "say 1"}
            requests = [
                client.post("/step", json=body),
                client.post("/close", json={"id": number}),
                client.post("/step", json=body),
            ]
            return [response.json() for response in await asyncio.gather(*requests)]

    first, closed, second = asyncio.run(run())
    assert (first["observation"], closed, second["type"]) == ("Right.", True, "UnknownSession")


def test_shutdown_closes_every_session_even_after_one_that_cannot(slow, caplog):
    with TestClient(slow) as client:
        for index in (2, 1, 0):
            client.post("/reset", json={"id": opened(client), "data_idx": index})
    assert Slow.log == ["close"] * 3 and len(slow.state.sessions) == 0
    assert "did not close properly" in caplog.text


def test_a_fault_of_a_world_is_500_and_the_session_lives_on(slow, caplog):
    with TestClient(slow, raise_server_exceptions=False) as client:
        number = opened(client)
        client.post("/reset", json={"id": number, "data_idx": 1})
        response = client.post("/step", json={"id": number, "action": "die"})
        assert response.status_code == 500 and "fault" not in response.text and "a fault of the world's" in caplog.text
        response = client.post("/step", json={"id": number, "action": "vanish"})
        assert response.json() == {"error": "the world has died", "type": "EnvUnavailable"}
        assert client.post("/step", json={"id": number, "action": "say 1"}).json()["observation"] == "Right."


def test_metrics_count_sessions_steps_and_errors(counter):
    number = opened(counter)
    counter.post("/step", json={"id": number, "action": "x"})
    counter.post("/reset", json={"id": number, "data_idx": 1})
    counter.post("/step", json={"id": number, "action": "say 1"})
    counter.post("/step", json={})
    counter.post("/close", json={"id": number})
    counted = counter.get("/metrics").text
    for line in (
        'agentgym_sessions_open{env="counter"} 0.0',
        'agentgym_sessions_created_total{env="counter"} 1.0',
        'agentgym_sessions_closed_total{env="counter"} 1.0',
        'agentgym_steps_total{env="counter"} 1.0',
        'agentgym_errors_total{env="counter",route="/step",status="200"} 1.0',
        'agentgym_errors_total{env="counter",route="/step",status="422"} 1.0',
        'agentgym_request_seconds_count{env="counter",route="/step"} 3.0',
    ):
        assert line in counted


def test_ids_tell_the_worker_and_nothing_else():
    sessions = Sessions(limit=151, ttl=1, worker=2, workers=3)  # of which this worker's share is 50
    numbers = [sessions.open("counter", toy.Counter).id for _ in range(50)]
    assert len(set(numbers)) == 50 and max(numbers) < MAX_SESSION
    assert all(number % 3 == 2 for number in numbers) and numbers != sorted(numbers)
    with pytest.raises(Full, match=r"50 sessions are open in one of 3 workers, which share 151, as many as may be"):
        sessions.open("counter", toy.Counter)


@pytest.mark.parametrize(
    "wrong",
    [
        {"envs": {}},
        {"session_ttl": 0},
        {"max_sessions": 0},
        {"body_limit": -1},
        {"workers": 0},
        {"workers": 4, "max_sessions": 3},
        {"token": ""},
        {"token": "two words"},
        {"token": "schön"},
    ],
)
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(ValueError):
        Settings(**{"envs": {"maze": {}}, **wrong})


def test_options_are_judged_when_the_server_starts():
    with pytest.raises(ValueError, match="family"):
        create_app(Settings(envs={"maze": {"family": "castles"}}))


def test_replies_are_plain_json(counter):
    response = counter.post("/create", json={})
    assert response.headers["content-type"] == "application/json"
    assert int(response.headers["content-length"]) == len(response.content) and json.loads(response.content)
