"""What hostile clients cost a server: idle, half-open and slow connections, guesses of its token, a killed worker.

    python benchmarks/hostile_clients.py                        # 10,000 connections; two minutes
    python benchmarks/hostile_clients.py --connections 500 --only connections token

Client and server share the machine, and the client needs as many files as there are connections: without root they are
limited to the hard limit of open files.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from statistics import mean, median, quantiles, stdev
from typing import Any
from urllib.request import Request, urlopen

import psutil
from env_server import started
from options import positive

from agentgym_rl.envs.protocol.server.app import create_app
from agentgym_rl.envs.protocol.server.http import RECEIVE_S
from agentgym_rl.envs.protocol.server.settings import Settings

HEAD = b"POST /create HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
TOKEN = "s3cret-" + "x" * 57
ENV = "maze"


def command(port: int, *options: str) -> list[str]:
    return [sys.executable, "-m", "agentgym_rl.cli", "serve", ENV, "--port", str(port), *options]


def ask(port: int, path: str, **body: Any) -> Any:
    """The JSON of an answer on a connection of its own."""
    request = Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def episode(port: int) -> None:
    session = ask(port, "/create")["id"]
    ask(port, "/reset", id=session, game=0)
    ask(port, "/step", id=session, action="move up")
    ask(port, "/close", id=session)


def answers(port: int, seconds: float) -> str:
    """Times of four requests that make a short episode, one after the other."""
    times: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times) < 2:
        begun = time.perf_counter()
        episode(port)
        times.append(time.perf_counter() - begun)
    high = quantiles(times, n=100)[98]
    return f"an episode takes {1e3 * median(times):.0f} ms (p99 {1e3 * high:.0f}, worst {1e3 * max(times):.0f})"


def opened(port: int, number: int, content: bytes, room: int | None = None) -> list[socket.socket]:
    """Connections that have sent something, 5,000 from each address, as ports are limited.

    Args:
        room: bytes that the system takes for the client.
    """
    sockets = []
    for place in range(number):
        connection = socket.socket()
        if room is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        connection.bind((f"127.0.0.{2 + place // 5000}", 0))
        connection.connect(("127.0.0.1", port))
        connection.sendall(content)
        sockets.append(connection)
    return sockets


def gone(connections: list[socket.socket], seconds: float) -> float:
    """Seconds until the server has closed them all."""
    begun = time.monotonic()
    for connection in connections:
        connection.settimeout(max(0.01, seconds - (time.monotonic() - begun)))
        try:
            while connection.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        connection.close()
    return time.monotonic() - begun


def mib(server: psutil.Process) -> float:
    return server.memory_info().rss / 2**20


def connections(args: argparse.Namespace) -> None:
    """Half of them silent, half with the head of a request that does not go on."""
    with started(command(args.port), args.port) as server:
        print(f"no connections: {answers(args.port, 5)}, {mib(server):.0f} MiB")
        begun = time.monotonic()
        silent = opened(args.port, args.connections // 2, b"")
        half = opened(args.port, args.connections - len(silent), HEAD)
        while (held := len(server.net_connections("tcp")) - 1) < args.connections and time.monotonic() - begun < 10:
            time.sleep(0.1)
        took = time.monotonic() - begun
        print(f"{args.connections:,} connections opened; after {took:.1f} s the server has accepted {held:,}")
        seconds_left = RECEIVE_S - (time.monotonic() - begun)
        print(f"with them: {answers(args.port, max(1.0, seconds_left - 2))}, {mib(server):.0f} MiB")
        gone(silent + half, 60)
        took = time.monotonic() - begun
        print(f"all closed by the server {took:.0f} s after the first was opened; {mib(server):.0f} MiB")
        print(f"after them: {answers(args.port, 5)}")


def slow(args: argparse.Namespace) -> None:
    """Clients that send a byte a second, and clients that ask for much and take nothing of it."""
    with started(command(args.port), args.port) as server:
        before, begun = mib(server), time.monotonic()
        starts = {"senders": HEAD + b"Content-Length: 1000\r\n\r\n", "readers": b""}
        more = {"senders": b" ", "readers": b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 8}
        still_open = {kind: opened(args.port, args.slow, start, room=4096) for kind, start in starts.items()}
        most, ended = before, dict.fromkeys(still_open, 0.0)
        print(f"{args.slow} slow senders and {args.slow} slow readers: {answers(args.port, 5)}", flush=True)
        while any(still_open.values()) and time.monotonic() - begun < 120:
            for kind, connections in still_open.items():
                still_open[kind] = [connection for connection in connections if goes_on(connection, more[kind])]
                if connections and not still_open[kind]:
                    ended[kind] = time.monotonic() - begun
            most = max(most, mib(server))
            time.sleep(1)
        ends = ", ".join(end(kind, len(still_open[kind]), seconds) for kind, seconds in ended.items())
        print(f"{ends}; the server grew by at most {most - before:.0f} MiB")


def end(kind: str, left: int, seconds: float) -> str:
    """What became of slow clients."""
    return f"{left} {kind} still there" if left else f"{kind} gone after {seconds:.0f} s"


def goes_on(connection: socket.socket, content: bytes) -> bool:
    """Send a little more; False, and the connection closed, where the server has ended it."""
    try:
        connection.send(content, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        connection.close()
        return False
    return True


def token(args: argparse.Namespace) -> None:
    """CPU of refusing tokens by how many characters they share with the right one; in random order, in this process."""
    app = create_app(Settings(envs={ENV: {}}, token=TOKEN))
    shared = (0, 1, 16, 32, 48, len(TOKEN) - 1)
    times: dict[int, list[float]] = {number: [] for number in shared}

    async def receive() -> Any:
        raise AssertionError("a refused request is not read")

    async def send(message: Any) -> None:
        assert message.get("status", 401) == 401

    async def refuse() -> None:
        for _ in range(args.guesses):
            for number in random.sample(shared, len(shared)):
                guess = TOKEN[:number] + "!" * (len(TOKEN) - number)
                headers = [(b"authorization", f"Bearer {guess}".encode())]
                scope = {"type": "http", "path": "/create", "method": "POST", "headers": headers, "query_string": b""}
                begun = time.perf_counter_ns()
                await app(scope, receive, send)
                times[number].append(time.perf_counter_ns() - begun)

    asyncio.run(refuse())
    for number, of_number in times.items():
        undisturbed = sorted(of_number)[: int(0.9 * len(of_number))]  # the rest was interrupted
        error = stdev(undisturbed) / len(undisturbed) ** 0.5
        print(f"{number:2} of {len(TOKEN)} characters right: {mean(undisturbed):.0f} ns (standard error {error:.0f})")


def worker(args: argparse.Namespace) -> None:
    """One of two workers is killed while sessions are open on both."""
    with started(command(args.port, "--workers", "2"), args.port) as server:
        time.sleep(8)  # a worker that ends sooner than 5 s after its start ends the server
        sessions = [ask(args.port, "/create")["id"] for _ in range(args.sessions)]
        for session in sessions:
            ask(args.port, "/reset", id=session, game=0)
        children = [child for child in server.children() if "resource_tracker" not in " ".join(child.cmdline())]
        of_worker = {number: sum(session % 2 == number for session in sessions) for number in (0, 1)}
        begun = time.monotonic()
        os.kill(children[0].pid, signal.SIGKILL)
        unanswered = sessions
        lost = kept = 0
        while unanswered and time.monotonic() - begun < 60:
            again = []
            for session in unanswered:
                try:
                    answer = ask(args.port, "/step", id=session, action="move up")
                except OSError:  # also 503 while the worker is away
                    again.append(session)
                    continue
                unknown = answer.get("type") == "UnknownSession"
                lost, kept = lost + unknown, kept + (not unknown)
            unanswered = again
        took = time.monotonic() - begun
        print(
            f"{args.sessions} sessions on two workers ({of_worker[0]} and {of_worker[1]}), one killed: {lost} lost, "
            f"{kept} go on, {len(unanswered)} unanswered after {took:.1f} s"
        )


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "connections": connections,
    "slow": slow,
    "token": token,
    "worker": worker,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=positive, default=10_000)
    parser.add_argument("--slow", type=positive, default=200, help="slow clients of each kind")
    parser.add_argument(
        "--guesses", type=positive, default=20_000, help="of the token, for each number of right characters"
    )
    parser.add_argument("--sessions", type=positive, default=200, help="open when a worker is killed")
    parser.add_argument("--port", type=int, default=36300)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=[*PARTS])
    args = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = max(soft, args.connections + 200)
    if os.geteuid() == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, max(hard, files)))
    elif files > hard:
        parser.error(f"--connections {args.connections} needs more open files than the hard limit of {hard}")
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    for name in args.only:
        print(f"{name}:", flush=True)
        PARTS[name](args)


if __name__ == "__main__":
    main()
