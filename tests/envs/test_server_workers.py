"""The server as processes: several workers behind one port, and how they end."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import psutil
import pytest

from agentgym_rl.envs.protocol.server.run import SOON, allow_files

LONG = 100
"""Seconds within which anything should happen, on a busy machine, too."""

pytestmark = pytest.mark.timeout(4 * LONG)


@contextmanager
def served(*arguments):
    """A server started from the command line on a free port: the process and its address."""
    command = [sys.executable, "-m", "agentgym_rl.cli", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        line = process.stderr.readline()
        assert line.startswith("Serving "), line + process.stderr.read()
        yield process, line.split(" at ")[1].split()[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()


@pytest.mark.slow
def test_two_workers_answer_for_each_others_sessions(toys):
    with served("counter", "todo", "--workers", "2", "--max-sessions", "8") as (process, address):
        ids = set()
        while {number % 2 for number in ids} != {0, 1}:  # each takes four; the second takes its time to start
            response = httpx.post(f"{address}/counter/create", json={}, timeout=LONG)
            ids |= {response.json()["id"]} if response.status_code == 200 else set()
            time.sleep(0.02)
        for number in ids:
            for _ in range(4):  # each on a connection of its own, which either worker may take
                response = httpx.post(f"{address}/counter/reset", json={"id": number, "data_idx": 1}, timeout=LONG)
                assert response.json()["observation"] == "Count to 2."
            response = httpx.get(f"{address}/counter/observation", params={"id": number}, timeout=LONG)
            assert response.json() == "Count to 2."
        with httpx.Client(base_url=address, timeout=LONG) as client:
            for number in ids:
                reply = client.post("/counter/step", json={"id": number, "action": "say 1 é"}).json()
                assert reply["observation"] == "I do not understand."
            assert client.post("/counter/step", json={"id": "x"}).status_code == 422
            assert client.post("/todo/step", json={"env_idx": min(ids), "action": ""}).status_code == 404
            while client.post("/counter/create", json={}).status_code == 200:
                pass
            assert client.get("/metrics").text.count('agentgym_sessions_open{env="counter"} 8.0') == 1
            assert [client.post("/counter/close", json={"id": number}).json() for number in ids] == [True] * len(ids)
            assert [client.post("/counter/close", json={"id": number}).json() for number in ids] == [False] * len(ids)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does for Ctrl-C
        assert process.wait(timeout=LONG) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/health")


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_only_its_sessions_are_lost(toys):
    with served("counter", "--workers", "2") as (process, address):
        ids = set()
        while {number % 2 for number in ids} != {0, 1}:
            response = httpx.post(f"{address}/create", json={}, timeout=LONG)
            ids |= {response.json()["id"]} if response.status_code == 200 else set()
            time.sleep(0.02)
        time.sleep(SOON)
        children = _children(process.pid)
        os.kill(children[0], signal.SIGKILL)
        assert "ended with status -9; its sessions are lost, and another takes its place" in process.stderr.readline()

        def reset(number):
            return httpx.post(f"{address}/reset", json={"id": number, "data_idx": 1}, timeout=LONG)

        deadline = time.monotonic() + LONG
        answers = [reset(number) for number in ids]
        while any(answer.status_code == 503 for answer in answers) and time.monotonic() < deadline:
            time.sleep(0.1)
            answers = [reset(number) for number in ids for _ in range(3)]
        lost = {answer.json().get("type") for answer in answers}
        assert lost == {None, "UnknownSession"}
        assert len(_children(process.pid)) == 2 and process.poll() is None


@pytest.mark.slow
def test_a_worker_that_cannot_live_ends_the_server(toys):
    with served("counter", "--workers", "2") as (process, _):
        while len(children := _children(process.pid)) < 2:
            time.sleep(0.01)
        os.kill(children[1], signal.SIGKILL)
        assert process.wait(timeout=LONG) == 2
        assert "its sessions are lost, and it had only just started" in process.stderr.read()
        assert not any(_alive(child) for child in children)


@pytest.mark.slow
def test_workers_do_not_outlive_their_parent(toys):
    with served("counter", "--workers", "2") as (process, address):
        assert httpx.get(f"{address}/health", timeout=LONG).status_code == 200
        children = _children(process.pid)
        process.kill()
        process.wait()
        deadline = time.monotonic() + LONG
        while any(_alive(child) for child in children) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(_alive(child) for child in children)


def _children(pid):
    return [
        child.pid for child in psutil.Process(pid).children() if "resource_tracker" not in " ".join(child.cmdline())
    ]


def _alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_a_server_may_open_as_many_files_as_the_system_lets_it(toys):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        with served("counter") as (process, address):
            assert httpx.get(f"{address}/health", timeout=LONG).status_code == 200
            assert psutil.Process(process.pid).rlimit(psutil.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("granted", "asked"), [(10_240, [10_240]), (100, [])])
def test_a_system_that_grants_less_than_its_limit_is_no_error(monkeypatch, granted, asked):
    """As macOS, whose limit is said to be infinite."""
    given = []

    def setrlimit(_, limits):
        if not 0 <= limits[0] <= granted:
            raise ValueError("current limit exceeds maximum limit")
        given.append(limits[0])

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    allow_files()
    assert given == asked


@pytest.mark.slow
def test_a_token_from_a_file_and_an_orderly_end(toys, tmp_path):
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    with served("counter", "--token-file", str(file)) as (process, address):
        assert httpx.post(f"{address}/create", timeout=LONG).status_code == 401
        allowed = {"authorization": "Bearer s3cret"}
        assert httpx.post(f"{address}/create", headers=allowed, timeout=LONG).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == -signal.SIGTERM and process.stderr.read() == ""
