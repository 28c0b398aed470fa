"""Several workers behind one port: each session stays in one process, and any process passes requests on to it.

The kernel gives a connection to whichever worker accepts it. The worker answers for its own sessions (id modulo the
number of workers) and asks its sibling for the others, over a Unix socket in a folder that only this user may enter.
New sessions go round, so that the load does not hang on who accepted what.

A frame is a header and a body. Asking: length of the body, number of the question; path, query and JSON, a line each.
Answering: length of the body, number of the question, status; JSON.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from pathlib import Path

from agentgym_rl.envs.protocol.server.answers import Reply, Route, detail
from agentgym_rl.envs.protocol.server.world import Body, Malformed, integer

ASK = struct.Struct("!II")
ANSWER = struct.Struct("!IIH")


class Siblings:
    """One worker's view of all.

    Args:
        folder: where the workers' sockets are.
        worker: this worker's number.
    """

    def __init__(self, folder: Path, worker: int, workers: int, routes: dict[str, Route]) -> None:
        self._folder, self._worker, self._workers, self._routes = folder, worker, workers, routes
        self._lines: dict[int, Line] = {}
        self._turn = itertools.count(worker)
        self._opening = asyncio.Lock()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, socket_path(self._folder, self._worker))

    def stop(self) -> None:
        for line in self._lines.values():
            line.cut()
        if self._server is not None:
            self._server.close()

    async def answer(self, path: str, route: Route, request: Body, raw: bytes, query: str) -> Reply:
        """The reply of the worker that has the session; a new session goes to the next worker with room."""
        if route.name == "/create":
            first = next(self._turn)
            for number in range(first, first + self._workers):
                reply = await self._from(number % self._workers, path, route, request, raw, query)
                if reply.status != 503:
                    break
            return reply
        try:
            session = integer(request, route.world.dialect.key)
        except Malformed as error:
            return route.refuse(error)
        return await self._from(session % self._workers, path, route, request, raw, query)

    async def _from(self, worker: int, path: str, route: Route, request: Body, raw: bytes, query: str) -> Reply:
        if worker == self._worker:
            return await route.answer(request)
        try:
            return await (await self._line(worker)).ask(path, raw, query)
        except OSError:
            return detail(503, f"worker {worker}, which has this session, does not answer")

    async def _line(self, worker: int) -> Line:
        async with self._opening:
            line = self._lines.get(worker)
            if line is None or line.dead:
                line = self._lines[worker] = await Line.to(socket_path(self._folder, worker))
            return line

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a sibling's questions, each as soon as its world has."""
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                size, number = ASK.unpack(await reader.readexactly(ASK.size))
                path, query, raw = (await reader.readexactly(size)).split(b"\n", 2)
                task = asyncio.create_task(self._reply(writer, number, path.decode(), query.decode(), raw))
                running.add(task)
                task.add_done_callback(running.discard)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _reply(self, writer: asyncio.StreamWriter, number: int, path: str, query: str, raw: bytes) -> None:
        route = self._routes[path]
        status, body = await route.answer(route.parse(raw, query))
        writer.write(ANSWER.pack(len(body), number, status) + body)


class Line:
    """An open connection to a sibling, for any number of questions at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._listening = asyncio.create_task(self._listen())
        self.dead = False

    @classmethod
    async def to(cls, path: str) -> Line:
        """Connect.

        Raises:
            OSError: nobody listens there.
        """
        return cls(*await asyncio.open_unix_connection(path))

    async def ask(self, path: str, raw: bytes, query: str) -> Reply:
        """The reply to a request.

        Raises:
            ConnectionError: the sibling is gone.
        """
        number = next(self._numbers) % 2**32
        self._waiting[number] = asyncio.get_running_loop().create_future()
        question = b"\n".join((path.encode(), query.encode(), raw))
        self._writer.write(ASK.pack(len(question), number) + question)
        return await self._waiting[number]

    def cut(self) -> None:
        self._listening.cancel()
        self._writer.close()

    async def _listen(self) -> None:
        try:
            while True:
                size, number, status = ANSWER.unpack(await self._reader.readexactly(ANSWER.size))
                body = await self._reader.readexactly(size)
                self._waiting.pop(number).set_result(Reply(status, body))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            self.dead = True
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("the sibling is gone"))


def socket_path(folder: Path, worker: int) -> str:
    return str(folder / f"{worker}.sock")
