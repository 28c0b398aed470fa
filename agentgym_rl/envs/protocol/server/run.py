"""Runs the application: one process, or several behind one port."""

import ipaddress
import logging
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from errno import EADDRNOTAVAIL
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from starlette.types import ASGIApp

from agentgym_rl.envs.core import EnvError
from agentgym_rl.envs.protocol.server.app import create_app
from agentgym_rl.envs.protocol.server.http import Protocol
from agentgym_rl.envs.protocol.server.metrics import FOLDER
from agentgym_rl.envs.protocol.server.settings import Settings

log = logging.getLogger(__name__)

GRACE = 5
"""Seconds for open requests to finish when the server stops."""
OPEN_MAX = 10_240
"""Open files that macOS grants a process."""
SOON = 5.0
"""Seconds after its start within which a worker should not end; one that does would end again."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ValueError: the address cannot be used."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        option = "--host" if isinstance(error, socket.gaierror) or error.errno == EADDRNOTAVAIL else "--port"
        raise ValueError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another with {option}"
        ) from error
    # Connections inherit it. Without it the body of an answer waits 40 ms for the client to acknowledge its head;
    # asyncio sets it on sockets of its own only.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


Create = Callable[..., FastAPI]
"""Makes the application of one worker, as :func:`.app.create_app` does; a function that workers can import."""


def serve(settings: Settings, listening: socket.socket, create: Create = create_app) -> None:
    """Serve until SIGINT or SIGTERM, then close all sessions.

    Args:
        create: makes the application; by default that of AgentGym's protocol.

    Raises:
        EnvError: an environment cannot be loaded, or a worker ended soon after its start.
        ValueError: an option of an environment is wrong.
    """
    allow_files()
    if settings.workers == 1:
        with suppress(KeyboardInterrupt):
            _server(create(settings), settings.body_limit).run([listening])
        return
    create(settings)  # raises here, rather than in every worker, where the settings are wrong
    workers = _Workers(settings, listening, create)
    try:
        workers.watch()
    finally:
        workers.stop()


def allow_files() -> None:
    """As many open files as this process may have: a connection is one, and often 1,024 are allowed at first."""
    with suppress(ImportError):  # Windows has no such limit
        import resource

        now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        except ValueError:  # macOS calls its limit infinite, and refuses that
            with suppress(ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(now, OPEN_MAX), most))


class _Workers:
    """The processes behind one port."""

    def __init__(self, settings: Settings, listening: socket.socket, create: Create) -> None:
        self._settings, self._listening, self._create = settings, listening, create
        self._spawn = multiprocessing.get_context("spawn")
        self._folder = Path(tempfile.mkdtemp(prefix="agentgym-rl-"))
        os.environ[FOLDER] = str(self._folder)
        self._processes: dict[int, BaseProcess] = {}
        self._started: dict[int, float] = {}

    def watch(self) -> None:
        """Start the workers and replace those that end, until a signal comes.

        Raises:
            EnvError: a worker ended soon after its start.
        """
        previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            for worker in range(self._settings.workers):
                self._start(worker)
            while True:
                self._replace(wait([process.sentinel for process in self._processes.values()]))
        except KeyboardInterrupt:
            return
        finally:
            signal.signal(signal.SIGTERM, previous)

    def stop(self) -> None:
        """End the workers, all within the same time."""
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + GRACE + 1
        for process in self._processes.values():
            process.join(max(0.0, deadline - time.monotonic()))
            process.kill()
            process.join()  # it writes to the folder until it has ended
        del os.environ[FOLDER]
        shutil.rmtree(self._folder)

    def _start(self, worker: int) -> None:
        what = (self._create, self._settings, worker, self._folder, self._listening)
        process = self._spawn.Process(target=_work, args=what)
        process.start()
        self._processes[worker], self._started[worker] = process, time.monotonic()

    def _replace(self, ended: Collection[object]) -> None:
        for worker, process in self._processes.items():
            if process.sentinel not in ended:
                continue
            process.join()
            message = f"worker {worker} ended with status {process.exitcode}; its sessions are lost"
            if time.monotonic() - self._started[worker] < SOON:
                raise EnvError(f"{message}, and it had only just started")
            log.warning("%s, and another takes its place", message)
            mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
            self._start(worker)


def _work(create: Create, settings: Settings, worker: int, folder: Path, listening: socket.socket) -> None:
    """Run a worker, which ends with its parent at the latest."""
    server = _server(create(settings, worker, folder), settings.body_limit)

    def follow() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None, "a worker is started by serve()"
        parent.join()
        server.should_exit = True
        shutil.rmtree(folder, ignore_errors=True)  # the parent could not remove it

    threading.Thread(target=follow, daemon=True).start()
    with suppress(KeyboardInterrupt):
        server.run([listening])


def _server(app: FastAPI, largest: int = 1 << 20) -> uvicorn.Server:
    return uvicorn.Server(config_of(app, largest))


def config_of(app: ASGIApp, largest: int) -> uvicorn.Config:
    """How an application is served; ``largest`` is the most bytes of a socket's message."""
    return uvicorn.Config(
        app,
        http=Protocol,
        ws="websockets-sansio",
        ws_max_size=largest,
        access_log=False,
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=GRACE,
    )
