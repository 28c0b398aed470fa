"""What one connection may send and for how long, and how the server ends with connections that are half open."""

import socket
import threading
import time

import httpx
import pytest

from agentgym_rl.envs.protocol.server import Settings, create_app, http
from agentgym_rl.envs.protocol.server.run import _server, listen

POST = b"POST /create HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
OK = b"HTTP/1.1 200 "
HALF = {"silent": b"", "head": POST, "body": POST + b"Content-Length: 100\r\n\r\n{"}


@pytest.fixture
def server(toys):
    """A server in a thread, and its port."""
    listening = listen("127.0.0.1", 0)
    running = _server(create_app(Settings(envs={"counter": {}})))
    thread = threading.Thread(target=running.run, args=([listening],))
    thread.start()
    yield running, listening.getsockname()[1]
    running.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def sent(port, content):
    """A connection that has sent something."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(content)
    return connection


def answer(connection):
    """All that the server sends until it closes the connection."""
    received = b""
    try:
        while part := connection.recv(4096):
            received += part
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health?" + b"a" * http.HEAD + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nA: " + b"a" * http.HEAD + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"A: a\r\n" * http.HEAD + b"\r\n",
    ],
    ids=["url", "one header", "many headers"],
)
def test_a_request_with_a_large_head_is_refused(server, head):
    response = answer(sent(server[1], head))
    assert response.startswith(b"HTTP/1.1 431 ") or not response, "a reset connection may lose the answer"
    assert httpx.get(f"http://127.0.0.1:{server[1]}/health").status_code == 200


def test_a_header_without_an_end_is_refused(server):
    connection = sent(server[1], b"GET /health HTTP/1.1\r\nA: ")
    with pytest.raises(OSError):
        for _ in range(10_000):
            connection.sendall(b"a" * 1000)
            time.sleep(0.0005)


def test_heads_and_bodies_within_the_limits_are_answered(server):
    address = f"http://127.0.0.1:{server[1]}"
    with httpx.Client(base_url=address) as client:
        for _ in range(3):
            assert client.get("/health", headers={"a": "a" * (http.HEAD - 500)}).status_code == 200
            response = client.post("/create", json={"x": "y" * 900_000})
            assert response.status_code == 200


def test_a_head_within_the_limit_may_come_in_several_segments(server):
    head = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + (b"A: " + b"a" * 990 + b"\r\n") * 15
    head += b"\r\n"
    assert len(head) > 0.9 * http.HEAD
    connection = sent(server[1], b"")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for start in range(0, len(head), 1400):
        connection.sendall(head[start : start + 1400])
        time.sleep(0.01)  # so that the server gets each by itself
    assert answer(connection).startswith(OK)


@pytest.mark.parametrize("half", HALF)
def test_a_request_that_does_not_arrive_ends_its_connection(server, half, monkeypatch):
    monkeypatch.setattr(http, "RECEIVE_S", 0.3)
    connection = sent(server[1], HALF[half])
    begun = time.monotonic()
    assert answer(connection) == b""
    assert time.monotonic() - begun > 0.2
    with httpx.Client(base_url=f"http://127.0.0.1:{server[1]}") as client:  # a whole request has no such limit
        assert client.get("/health").status_code == 200
        time.sleep(0.6)
        assert client.get("/health").status_code == 200


ASK = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"


def test_too_many_requests_at_once_end_their_connection(server):
    server[0].config.timeout_keep_alive = 0.5
    response = answer(sent(server[1], ASK * (http.WAITING + 1)))
    assert response.count(OK) == http.WAITING + 1
    response = answer(sent(server[1], ASK * 5000))
    assert b"HTTP/1.1 400 " in response and response.count(OK) <= http.WAITING


def test_a_client_that_does_not_take_its_answers_loses_its_connection(server, monkeypatch):
    monkeypatch.setattr(http, "WAITING", 5000)
    monkeypatch.setattr(http, "SEND_S", 0.5)
    with sent(server[1], ASK * 2000):
        deadline = time.monotonic() + 60
        while server[0].server_state.connections:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.slow
def test_the_time_for_taking_answers_begins_anew_whenever_some_are_taken(server, monkeypatch):
    monkeypatch.setattr(http, "WAITING", 5000)
    timers, pause = [], http.Protocol.pause_writing
    monkeypatch.setattr(http.Protocol, "pause_writing", lambda self: (pause(self), timers.append(self._stuck)))
    with sent(server[1], ASK * 2000) as connection:
        answered, text = 0, b""
        while not timers:  # the client is behind
            time.sleep(0.01)
        while answered < 2000:
            text = text[1 - len(OK) :] + connection.recv(1 << 18)
            answered += text.count(OK)
    assert all(timer.cancelled() for timer in timers)


@pytest.mark.parametrize("half", HALF)
def test_half_open_connections_do_not_hold_up_the_end(server, half):
    running, port = server
    connections = [sent(port, HALF[half]) for _ in range(5)]
    time.sleep(0.3)
    begun = time.monotonic()
    running.should_exit = True
    assert all(answer(connection) == b"" for connection in connections)
    assert time.monotonic() - begun < http.RECEIVE_S


def test_the_body_of_an_answer_does_not_wait_until_the_client_has_acknowledged_its_head():
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
