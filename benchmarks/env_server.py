"""What a session costs behind HTTP: rate, latency, CPU and memory of ``agentgym-rl serve``, and of other servers.

An episode is create, reset, ten steps and close. A bare FastAPI server that sends back what it is sent gets as many
requests in the same run, and so does any server of AgentGym's protocol named with ``--against``.

    python benchmarks/env_server.py                          # TextCraft and BabyAI; some minutes
    python benchmarks/env_server.py --quick --envs webshop miniwob webarena
    python benchmarks/env_server.py --envs textcraft --against http://127.0.0.1:36001

Compare CPU per episode: it depends on the machine alone. The rate is also bounded by the client, which needs a core of
its own. Of environments in a browser, whose processes count, there are at most 16 sessions and episodes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from urllib.parse import urlsplit

import psutil
from options import positive
from rich.console import Console
from rich.table import Table
from rollout_tables import spread

from agentgym_rl.envs import env_class
from agentgym_rl.envs.core import Task
from agentgym_rl.envs.protocol.wire import Dialect, dialect

ACTIONS = {
    "textcraft": ("get 1 oak log", "inventory", "craft 4 oak planks using 1 oak log", "get 1 crimson planks", "qwzx"),
    "babyai": ("turn left", "move forward", "check available actions", "turn right", "go to red ball 1"),
    "webshop": ("search[soft running shoes]", "click[next >]", "click[< prev]", "search[dog beds]", "qwzx"),
    "miniwob": ("hover [2]", "press [tab]", "scroll [down]", "wait", "qwzx"),
    "webarena": ("click [4]", "hover [2]", "goto [http://forum.test/]", "go_back", "qwzx"),
}
FIRST_TASK = {"textcraft": 200, "babyai": 0, "webshop": 200, "miniwob": 0, "webarena": 50}
"""TextCraft's goals from here on take several of the commands above to reach."""
IN_A_BROWSER = {"miniwob": 16, "webarena": 16}
"""Most sessions and episodes."""
TASKS = 250
STEPS = 10
TTL = 20
"""Seconds after which the memory of abandoned sessions should be back; long enough to open them all."""

ECHO = """
import sys, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
class Request(BaseModel):
    id: int
    action: str
app = FastAPI()
@app.post("/echo")
async def echo(request: Request) -> Request:
    return request
uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="warning")
"""


class Connection(asyncio.Protocol):
    """One kept-alive connection that sends JSON and reads JSON, with next to no cost of its own."""

    def __init__(self) -> None:
        self._buffer = b""
        self._reply: asyncio.Future[bytes] | None = None

    @classmethod
    async def to(cls, url: str) -> Connection:
        address = urlsplit(url)
        assert address.hostname is not None and address.port is not None, f"{url} names no host and port"
        _, connection = await asyncio.get_running_loop().create_connection(cls, address.hostname, address.port)
        connection.host, connection.prefix = address.netloc.encode(), address.path.rstrip("/").encode()
        return connection

    host: bytes
    prefix: bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def post(self, path: str, body: object) -> object:
        raw = b"" if body is None else json.dumps(body).encode()
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(
            b"POST %b%b HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (self.prefix, path.encode(), self.host, len(raw), raw)
        )
        return json.loads(await self._reply)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        lower = head.lower()
        start = lower.index(b"content-length:") + len(b"content-length:")
        length = int(lower[start:].split(b"\r\n", 1)[0])
        if len(body) >= length and self._reply is not None:
            self._buffer, reply, self._reply = b"", self._reply, None
            if b" 200 " in head[:16]:
                reply.set_result(body)
            else:
                reply.set_exception(RuntimeError(f"{head.splitlines()[0].decode()}: {body[:200].decode()}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ConnectionError("the server closed the connection"))

    def close(self) -> None:
        self._transport.close()


@dataclass
class Target:
    """A server under test."""

    name: str
    url: str
    process: psutil.Process | None
    dialect: Dialect | None
    """None: the echo server."""

    def cpu(self) -> float:
        """CPU seconds used so far."""
        if self.process is None:
            return float("nan")
        processes = [self.process, *self.process.children(recursive=True)]
        return sum(sum(process.cpu_times()[:4]) for process in processes)  # with those of children that have ended

    def memory(self) -> float:
        """MiB, of which those that processes share count once."""
        if self.process is None:
            return float("nan")
        processes = [self.process, *self.process.children(recursive=True)]
        return sum(process.memory_full_info().pss for process in processes) / 2**20


@dataclass
class Load:
    """What one run of many episodes saw."""

    seconds: float = 0.0
    cpu: float = 0.0
    episodes: int = 0
    latencies: list[float] = field(default_factory=list)
    """Of steps, in seconds."""

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    def latency(self, share: float) -> float:
        return sorted(self.latencies)[int(share * (len(self.latencies) - 1))]


async def episode(connection: Connection, target: Target, number: int, load: Load) -> None:
    if target.dialect is None:
        for _ in range(STEPS + 3):
            started = time.perf_counter()
            await connection.post("/echo", {"id": number, "action": "craft 4 oak planks using 1 oak log"})
            load.latencies.append(time.perf_counter() - started)
        del load.latencies[-3:]
        return
    words = target.dialect
    session = words.new_session(await connection.post("/create", words.create_body))
    index = FIRST_TASK[words.env] + number % TASKS
    words.read_reset(await connection.post("/reset", words.reset_body(session, index)))
    total = 0.0
    for number in range(STEPS):
        action = ACTIONS[words.env][number % len(ACTIONS[words.env])]
        action = f"```{action}```" if words.whole_response else action
        started = time.perf_counter()
        reply = await connection.post("/step", words.step_body(session, action))
        load.latencies.append(time.perf_counter() - started)
        step = words.read_step(reply, total)
        total += step.reward
        if step.done:
            break
    await connection.post("/close", {words.key: session})


async def play(target: Target, clients: int, episodes: int) -> Load:
    """Play episodes with so many clients at a time."""
    load = Load(episodes=episodes)
    numbers = iter(range(episodes))
    connections = [await Connection.to(target.url) for _ in range(clients)]

    async def client(connection: Connection) -> None:
        for number in numbers:
            await episode(connection, target, number, load)

    before, started = target.cpu(), time.perf_counter()
    await asyncio.gather(*map(client, connections))
    load.seconds, load.cpu = time.perf_counter() - started, target.cpu() - before
    for connection in connections:
        connection.close()
    return load


async def in_process(name: str, episodes: int) -> float:
    """Episodes a second of CPU without a server."""
    make = env_class(name)
    await make().reset(Task(name, FIRST_TASK[name]))  # reads what the environment keeps
    started = time.process_time()
    for number in range(episodes):
        env = make()
        await env.reset(Task(name, FIRST_TASK[name] + number % TASKS))
        for step in range(STEPS):
            if (await env.step(ACTIONS[name][step % len(ACTIONS[name])])).done:
                break
        await env.close()
    return episodes / (time.process_time() - started)


async def abandon(target: Target, sessions: int) -> None:
    """Open sessions, start a task in each and leave them."""
    assert target.dialect is not None
    connection = await Connection.to(target.url)
    for number in range(sessions):
        session = target.dialect.new_session(await connection.post("/create", target.dialect.create_body))
        index = FIRST_TASK[target.dialect.env] + number % TASKS
        await connection.post("/reset", target.dialect.reset_body(session, index))
    connection.close()


@contextmanager
def started(command: Sequence[str], port: int) -> Iterator[psutil.Process]:
    """A server in a process of its own, until the block ends."""
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        asyncio.run(_wait_for(port, server))
        yield psutil.Process(server.pid)
    finally:
        server.terminate()
        server.wait()


async def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if server.poll() is not None:
            raise SystemExit(f"the server on port {port} ended with status {server.returncode}")
        try:
            (await Connection.to(f"http://127.0.0.1:{port}")).close()
            return
        except OSError:
            await asyncio.sleep(0.1)
    raise SystemExit(f"nothing answers on port {port}")


def listener(url: str) -> psutil.Process | None:
    """The process of this machine that listens at a URL's port."""
    port = urlsplit(url).port
    pids = [
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid is not None
    ]
    return psutil.Process(pids[0]) if pids else None


def compare_load(console: Console, targets: list[Target], clients: Sequence[int], repeats: int, episodes: int) -> None:
    """Print rate, latency and CPU of each server; the servers take turns within a repeat."""
    for count in clients:
        loads: dict[str, list[Load]] = {target.name: [] for target in targets}
        for _ in range(repeats):
            for target in targets:
                loads[target.name].append(asyncio.run(play(target, count, max(episodes, count))))
        table = Table(title=f"{count} clients, {max(episodes, count)} episodes, {repeats} repeats: median (range)")
        for column in ("server", "steps/s", "/ echo", "step p50 ms", "step p99 ms", "CPU ms/episode"):
            table.add_column(column, justify="left" if column == "server" else "right")
        base = median(load.rate for load in loads["echo"])
        for name, of_server in loads.items():
            table.add_row(
                name,
                spread([load.rate for load in of_server], 0),
                spread([load.rate / base for load in of_server], 2),
                spread([1000 * load.latency(0.5) for load in of_server], 2),
                spread([1000 * load.latency(0.99) for load in of_server], 2),
                spread([1000 * load.cpu / load.episodes for load in of_server], 2),
            )
        console.print(table)


def compare_memory(console: Console, targets: list[Target], sessions: int) -> None:
    """Print what open sessions weigh, and what is left when they have expired.

    An episode goes before, so that what sessions share (a shop, the browser) is none of their weight.
    """
    table = Table(title=f"memory, {sessions} abandoned sessions, time to live {TTL} s here")
    for column in ("server", "before MiB", "after MiB", "KiB/session", "after the time to live", "and as many again"):
        table.add_column(column, justify="left" if column == "server" else "right")
    for target in targets:
        asyncio.run(play(target, clients=1, episodes=1))
        before = target.memory()
        asyncio.run(abandon(target, sessions))
        after = target.memory()
        time.sleep(1.5 * TTL)
        expired = target.memory()
        asyncio.run(abandon(target, sessions))
        weight = 1024 * (after - before) / sessions
        table.add_row(target.name, *(f"{value:.1f}" for value in (before, after, weight, expired, target.memory())))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", choices=sorted(ACTIONS), default=["textcraft", "babyai"])
    parser.add_argument("--clients", nargs="*", type=positive, default=[1, 16, 64, 256])
    parser.add_argument("--repeats", type=positive, default=3)
    parser.add_argument("--episodes", type=positive, default=400, help="a repeat")
    parser.add_argument("--abandoned", type=positive, default=2000, help="sessions of the memory test")
    parser.add_argument("--against", metavar="URL", help="another server of the only environment")
    parser.add_argument("--workers", type=positive, default=1, help="of our server")
    parser.add_argument("--port", type=int, default=36100, help="first of the ports to use")
    parser.add_argument("--quick", action="store_true", help="1 and 64 clients, one repeat, a few episodes")
    args = parser.parse_args()
    if args.quick:
        args.clients, args.repeats, args.episodes, args.abandoned = [1, 64], 1, 100, 200
    if args.against and len(args.envs) != 1:
        parser.error("--against needs --envs with one environment")
    console = Console()
    console = console if console.width > 110 else Console(width=130)
    with started([sys.executable, "-c", ECHO, str(args.port)], args.port) as bare:
        for number, env in enumerate(args.envs, 1):
            port = args.port + number
            command = [sys.executable, "-m", "agentgym_rl.cli", "serve", env, "--port", str(port)]
            command += ["--session-ttl", str(TTL), "--workers", str(args.workers)]
            with started(command, port) as process:
                console.rule(env)
                most = IN_A_BROWSER.get(env, args.episodes)
                rate = asyncio.run(in_process(env, min(most, args.episodes)))
                without = ", the browser's not counted" if env in IN_A_BROWSER else ""
                console.print(f"in process: {rate:.0f} episodes a second of CPU{without}")
                ours = [Target("agentgym-rl", f"http://127.0.0.1:{port}", process, dialect(env))]
                if args.against:
                    ours.append(Target(args.against, args.against, listener(args.against), dialect(env)))
                echo = Target("echo", f"http://127.0.0.1:{args.port}", bare, None)
                compare_memory(console, ours, min(args.abandoned, IN_A_BROWSER.get(env, args.abandoned)))
                clients = sorted({min(count, IN_A_BROWSER.get(env, count)) for count in args.clients})
                compare_load(console, [echo, *ours], clients, args.repeats, min(most, args.episodes))


if __name__ == "__main__":
    main()
