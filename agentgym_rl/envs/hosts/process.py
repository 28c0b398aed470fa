"""Worlds in processes of this machine: their code runs beside the caller's, on other cores."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from typing import Any

from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable
from agentgym_rl.envs.hosts.crew import START_S, CrewOpener, Worker
from agentgym_rl.envs.hosts.frames import pack, unpack

MODULE = "agentgym_rl.envs.hosts.child"
STDERR = 2


class Processes(CrewOpener):
    """Opens sessions in ``host.workers`` processes."""

    async def start(self, name: str) -> Worker:
        """Start a process."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", MODULE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL,
                stdout=STDERR,  # what worlds print must not get into a command's output
                start_new_session=True,  # Ctrl-C is for the parent; the child ends with its socket
            )
        return ProcessWorker(name, process, *await asyncio.open_connection(sock=ours))


class ProcessWorker:
    """A process that holds sessions, seen from outside."""

    def __init__(
        self,
        name: str,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.name = f"{name} (process {process.pid})"
        self.process = process
        self._writer = writer
        self.timeout = START_S
        self._calls: dict[int, tuple[asyncio.Future[Any], asyncio.TimerHandle]] = {}
        self._made = 0
        self._listening = asyncio.create_task(self._listen(reader))

    @property
    def alive(self) -> bool:
        return not self._listening.done()

    async def call(self, method: str, *arguments: Any) -> Any:
        if not self.alive:
            raise EnvUnavailable(f"{self.name} is dead")
        self._made += 1
        number, answer = self._made, asyncio.get_running_loop().create_future()
        # a call that its caller no longer waits for still shows whether the process hangs
        deadline = asyncio.get_running_loop().call_later(self.timeout, self._hangs, number, method, self.timeout)
        self._calls[number] = answer, deadline
        self._writer.write(pack((number, method, arguments)))
        return await answer

    async def stop(self) -> None:
        self._writer.close()
        await asyncio.wait([self._listening])
        await asyncio.to_thread(self.process.wait)

    def _hangs(self, number: int, method: str, seconds: float) -> None:
        self._answer(number, None, EnvTimeout(f"{self.name} took longer than {seconds:g} s for a {method}"))
        self.process.kill()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                self._answer(*await unpack(reader))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.process.kill()
        finally:
            self._writer.close()
            for number in list(self._calls):
                self._answer(number, None, EnvUnavailable(f"{self.name} died"))

    def _answer(self, number: int, result: Any, error: Exception | None) -> None:
        answer, deadline = self._calls.pop(number)
        deadline.cancel()
        if answer.done():  # its caller was cancelled
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)
