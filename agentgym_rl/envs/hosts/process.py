"""Environments in processes of this machine: their code runs beside the caller's, on other cores."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from agentgym_rl.envs import rpc
from agentgym_rl.envs.hosts.workers import Worker, WorkerHost

MODULE = "agentgym_rl.envs.hosts.child"
STDERR = 2


class ProcessHost(WorkerHost):
    """Opens sessions in ``settings.workers`` processes."""

    async def start(self, name: str) -> Worker:
        """Start a process."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-u", "-m", MODULE, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    stdin=subprocess.DEVNULL,
                    stdout=STDERR,  # what environments print must not get into the output of a command, nor be lost
                    start_new_session=True,  # Ctrl-C is for the parent; the child ends with its socket
                )
            except OSError:
                ours.close()
                raise
        return ProcessWorker(name, process, rpc.Connection(*await asyncio.open_connection(sock=ours)))


class ProcessWorker(Worker):
    """A process that holds sessions."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], connection: rpc.Connection) -> None:
        super().__init__(f"{name} (process {process.pid})")
        self.process = process
        self._connection = connection
        self._watching = asyncio.create_task(self._watch())

    @property
    def alive(self) -> bool:
        return not self._connection.closed

    async def _send(self, method: str, arguments: Sequence[Any], seconds: float) -> Any:
        return await self._connection.call(method, arguments, seconds)

    async def stop(self) -> None:
        self._connection.close()
        await self._watching
        await asyncio.to_thread(self.process.wait)

    async def _watch(self) -> None:
        await self._connection.wait_closed()
        self.process.kill()
