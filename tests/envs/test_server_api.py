"""The server as its clients meet it: its OpenAPI page, a real port, the command line."""

import json
import socket
import threading

import httpx
import pytest
import schemathesis
import uvicorn
from hypothesis import settings
from schemathesis.checks import not_a_server_error
from typer.testing import CliRunner

from agentgym_rl.cli import app as cli
from agentgym_rl.envs.protocol.server import Settings, create_app
from agentgym_rl.envs.protocol.server.run import listen

APP = create_app(Settings(envs={"textcraft": {}, "maze": {}, "todo": {}}, max_sessions=10_000))
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP)


@SCHEMA.parametrize()
@settings(max_examples=8, derandomize=True, database=None)
def test_nothing_that_can_be_sent_breaks_the_server(case):
    case.call_and_validate(checks=[not_a_server_error])


def test_the_pages_describe_every_route_of_every_world():
    paths = APP.openapi()["paths"]
    assert {"/health", "/metrics", "/maze/step", "/todo/close", "/textcraft/create"} <= set(paths)
    step = paths["/todo/step"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert (
        set(step["required"]) == {"env_idx", "action"}
        and "whole response" in step["properties"]["action"]["description"]
    )
    reset = paths["/maze/reset"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(reset["required"]) == {"id", "game"}
    assert (
        paths["/todo/create"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]["type"] == "integer"
    )


def test_a_real_port(toys):
    app = create_app(Settings(envs={"counter": {}}, body_limit=1000))
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=30) as client:
            number = client.post("/create", json={}).json()["id"]
            assert client.post("/reset", json={"id": number, "data_idx": 0}).json()["observation"] == "Count to 1."
            assert client.post("/step", json={"id": number, "action": "x" * 5000}).status_code == 413
            reply = client.post("/step", json={"id": number, "action": "say 1"}).json()
            assert (reply["observation"], reply["reward"], reply["done"]) == ("Done.", 1.0, True)
    finally:
        server.should_exit = True
        thread.join()
    assert len(app.state.sessions) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "unknown environment 'nowhere'"),
        (["counter", "counter"], "named twice"),
        (["counter", "-o", "speed=3"], "no option 'speed'"),
        (["counter", "endless", "-o", "hurry=true"], "is not ENV.KEY=VALUE"),
        (["counter", "--workers", "0"], "workers is 0"),
        (["counter", "--token-file", "/nowhere/token"], "/nowhere/token"),
        (["counter", "--token-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE is not set"),
        (["counter", "--token-env", "X", "--token-file", "x"], "not both"),
        (["counter", "--host", "203.0.113.1", "--port", "0"], "choose another with --host"),
        (["todo", "--protocol", "mcp", "--port", "8000"], "--port is for HTTP; --protocol mcp talks on standard input"),
        (["todo", "--protocol", "mcp", "--token-env", "X"], "--token-env is for HTTP"),
    ],
)
def test_the_command_says_what_is_wrong(toys, arguments, message):
    result = CliRunner().invoke(cli, ["serve", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 2 and message in result.stderr


def test_a_port_in_use(toys):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        result = CliRunner().invoke(cli, ["serve", "counter", "--port", str(busy.getsockname()[1])])
    assert result.exit_code == 2 and "choose another with --port" in result.stderr


def test_options_reach_their_world_and_strangers_are_warned_of(toys, monkeypatch):
    served_settings = []
    monkeypatch.setattr("agentgym_rl.envs.protocol.server.serve", lambda settings, *_: served_settings.append(settings))
    arguments = ["counter", "endless", "--port", "0", "--style", "compact", "-o", "counter.hurry=true"]
    result = CliRunner().invoke(cli, ["serve", *arguments])
    assert result.exit_code == 0 and "Warning" not in result.stderr
    assert served_settings[0].envs == {"counter": {"style": "compact", "hurry": True}, "endless": {"style": "compact"}}
    result = CliRunner().invoke(cli, ["serve", "counter", "--port", "0", "--host", "0.0.0.0"])
    assert "anyone who reaches 0.0.0.0 can use this server" in result.stderr
    result = CliRunner().invoke(
        cli, ["serve", "counter", "--port", "0", "--host", "0.0.0.0", "--token-env", "T"], env={"T": "x"}
    )
    assert "Warning" not in result.stderr and served_settings[-1].token == "x"


def test_the_openapi_page_is_json():
    assert json.loads(json.dumps(APP.openapi()))["info"]["title"] == "agentgym-rl"
