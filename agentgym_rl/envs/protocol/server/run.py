"""Runs the application: one process, or several behind one port."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import threading
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from agentgym_rl.envs.core import EnvError
from agentgym_rl.envs.protocol.server.app import create_app
from agentgym_rl.envs.protocol.server.metrics import FOLDER
from agentgym_rl.envs.protocol.server.settings import Settings

GRACE = 5
"""Seconds for open requests to finish when the server stops."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        ValueError: the address cannot be used.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        raise ValueError(f"cannot listen on {host} port {port}: {error}; choose another with --port") from error


def serve(settings: Settings, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, then close all sessions.

    Raises:
        EnvError: an environment cannot be loaded, or a worker ended by itself.
        ValueError: an option of an environment is wrong.
    """
    if settings.workers == 1:
        with suppress(KeyboardInterrupt):
            _server(create_app(settings)).run([listening])
        return
    create_app(settings)  # raises here, rather than in every worker, where the settings are wrong
    folder = Path(tempfile.mkdtemp(prefix="agentgym-rl-"))
    spawn = multiprocessing.get_context("spawn")
    os.environ[FOLDER] = str(folder)
    processes: list[BaseProcess] = []
    try:
        for worker in range(settings.workers):
            processes.append(spawn.Process(target=_work, args=(settings, worker, folder, listening)))
            processes[-1].start()
        _watch(processes)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(2 * GRACE)
            process.kill()
            process.join()  # it writes to the folder until it has ended
        del os.environ[FOLDER]
        shutil.rmtree(folder)


def _watch(processes: list[BaseProcess]) -> None:
    """Wait for a signal; raises EnvError where a worker ended before."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        ready = wait([process.sentinel for process in processes])
        worker = next(number for number, process in enumerate(processes) if process.sentinel in ready)
        processes[worker].join()
        raise EnvError(f"worker {worker} ended with status {processes[worker].exitcode}; its sessions are lost")
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, previous)


def _work(settings: Settings, worker: int, folder: Path, listening: socket.socket) -> None:
    """Run a worker, which ends with its parent at the latest."""
    server = _server(create_app(settings, worker, folder))

    def follow() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None, "a worker is started by serve()"
        parent.join()
        server.should_exit = True
        shutil.rmtree(folder, ignore_errors=True)  # the parent could not remove it

    threading.Thread(target=follow, daemon=True).start()
    with suppress(KeyboardInterrupt):
        server.run([listening])


def _server(app: FastAPI) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(app, access_log=False, log_level="warning", lifespan="on", timeout_graceful_shutdown=GRACE)
    )
