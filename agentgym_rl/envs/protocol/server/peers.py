"""Several workers behind one port: each session stays in one process, and any process forwards requests to it.

The kernel gives a connection to whichever worker accepts it. The worker answers for its own sessions (id modulo the
number of workers) and forwards requests for others to its peers, over Unix sockets in a folder that only this user may
enter. New sessions go to the workers in turn, so that the load does not depend on which of them accepted a connection.
"""

import asyncio
import itertools
from pathlib import Path

from agentgym_rl.envs import rpc
from agentgym_rl.envs.protocol.server.operations import NUMBERING, Body, Malformed, integer
from agentgym_rl.envs.protocol.server.routes import Response, Route, detail


class Peers:
    """The workers of a server, seen from one of them.

    Args:
        folder: of the workers' sockets.
        worker: this worker's number.
    """

    def __init__(self, folder: Path, worker: int, workers: int, routes: dict[str, Route]) -> None:
        self._folder, self._worker, self._workers, self._routes = folder, worker, workers, routes
        self._connections: dict[int, rpc.Connection] = {}
        self._turn = itertools.count(worker)
        self._opening = asyncio.Lock()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(
            lambda reader, writer: rpc.serve(reader, writer, self._handle), self._socket(self._worker)
        )

    def stop(self) -> None:
        for connection in self._connections.values():
            connection.close()
        if self._server is not None:
            self._server.close()

    async def answer(self, path: str, route: Route, request: Body, raw: bytes, query: str) -> Response:
        """The response of the worker that has the session; a new session goes to the next worker with room."""
        if route.name == "/create":
            first = next(self._turn)
            for number in range(first, first + self._workers):
                response = await self._forward(number % self._workers, path, route, request, raw, query)
                if response.status != 503:
                    break
            return response
        if route.name == NUMBERING:
            return await route.answer(request)
        try:
            session = integer(request, route.dialect.key)
        except Malformed as error:
            return route.refuse(error)
        return await self._forward(session % self._workers, path, route, request, raw, query)

    async def _forward(self, worker: int, path: str, route: Route, request: Body, raw: bytes, query: str) -> Response:
        if worker == self._worker:
            return await route.answer(request)
        try:
            connection = await self._connect(worker)
            status, body = await connection.call("answer", [path, query, raw.decode("latin-1")])
        except OSError:
            return detail(503, f"worker {worker}, which has this session, does not answer")
        return Response(status, body.encode())

    async def _connect(self, worker: int) -> rpc.Connection:
        async with self._opening:
            connection = self._connections.get(worker)
            if connection is None or connection.closed:
                stream = await asyncio.open_unix_connection(self._socket(worker))
                connection = self._connections[worker] = rpc.Connection(*stream)
            return connection

    async def _handle(self, method: str, path: str, query: str, raw: str) -> tuple[int, str]:
        """Status and body of the response to a peer's request; ``answer`` is the only method."""
        route = self._routes[path]
        status, body = await route.answer(route.parse(raw.encode("latin-1"), query))
        return status, body.decode()

    def _socket(self, worker: int) -> str:
        return str(self._folder / f"{worker}.sock")
