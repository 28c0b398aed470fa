"""The process behind :mod:`agentgym_rl.envs.hosts.process`: calls come in over a socket, answers go out."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import traceback
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from agentgym_rl.envs.core import EnvError
from agentgym_rl.envs.hosts.frames import pack, unpack
from agentgym_rl.envs.hosts.sessions import Sessions

FAREWELL_S = 5.0
"""Most seconds for closing the sessions at the end."""


async def serve(connection: socket.socket) -> None:
    """Answer calls until the other end closes the connection."""
    reader, writer = await asyncio.open_connection(sock=connection)
    sessions = Sessions()
    running: set[asyncio.Task[None]] = set()
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            number, method, arguments = await unpack(reader)
            task = asyncio.create_task(_answer(writer, number, sessions.call(method, *arguments)))
            running.add(task)
            task.add_done_callback(running.discard)
    with suppress(TimeoutError):
        async with asyncio.timeout(FAREWELL_S):
            await sessions.close_all()


async def _answer(writer: asyncio.StreamWriter, number: int, call: Awaitable[Any]) -> None:
    answer: tuple[int, Any, Exception | None]
    try:
        answer = (number, await call, None)
    except EnvError as error:
        answer = (number, None, error)
    except Exception as error:  # a fault of the world, raised where it was called
        fault = RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        answer = (number, None, fault)
    writer.write(pack(answer))


def main() -> None:
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
    os._exit(0)  # a thread that hangs in a world must not keep the process
