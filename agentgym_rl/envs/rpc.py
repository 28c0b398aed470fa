"""Calls between processes of this package: JSON frames over asyncio streams.

A frame is a length (4 bytes, big-endian) and a JSON array. A call is ``[number, method, arguments]``, its answer
``[number, result, error]``; ``error`` is null or ``[class, message]``. Any number of calls may be under way at a time.
"""

import asyncio
import itertools
import json
import os
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from agentgym_rl.envs import core

HEAD = 4
KINDS = (
    *(core.UnknownEnv, core.MissingExtra, core.TaskNotFound, core.EnvUnavailable, core.EnvTimeout),
    *(core.EnvFault, core.ProtocolError, core.OracleUnavailable, core.EnvError, RuntimeError),
)
ERRORS: dict[str, type[Exception]] = {kind.__name__: kind for kind in KINDS}
"""By name; an error's class is the first of which it is an instance."""


class Connection:
    """The calling end of a stream. A call that gets no answer in time closes it, since the other end hangs."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._numbers = itertools.count()
        self._pending: dict[int, tuple[asyncio.Future[Any], asyncio.TimerHandle | None]] = {}
        self._listening = asyncio.create_task(self._listen(reader))

    @property
    def closed(self) -> bool:
        return self._listening.done()

    async def call(self, method: str, arguments: Sequence[Any], seconds: float | None = None) -> Any:
        """The result of a method of the other end.

        Raises:
            EnvError: of the class that the method raised; for subclasses of other modules, the class of
                :mod:`agentgym_rl.envs.core` above it.
            RuntimeError: the method raised anything else; holds its traceback.
            TimeoutError: no answer within ``seconds``.
            ConnectionError: the connection is closed.
        """
        if self.closed:
            raise ConnectionError("the connection is closed")
        loop = asyncio.get_running_loop()
        number, answer = next(self._numbers), loop.create_future()
        frame = _pack([number, method, list(arguments)], os.fspath)
        # The deadline outlives a caller that is cancelled: it still shows whether the other end hangs.
        deadline = None if seconds is None else loop.call_later(seconds, self._expire, number)
        self._pending[number] = answer, deadline
        self._writer.write(frame)
        return await answer

    def close(self) -> None:
        """Close the connection. Calls that wait for an answer raise ConnectionError."""
        self._listening.cancel()

    async def wait_closed(self) -> None:
        await asyncio.wait([self._listening])

    def _expire(self, number: int) -> None:
        self.close()  # first, so that the caller finds the connection closed
        self._settle(number, None, TimeoutError())

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    number, result, error = await _receive(reader)
                    self._settle(number, result, None if error is None else ERRORS[error[0]](error[1]))
        finally:
            self._writer.close()
            for number in list(self._pending):
                self._settle(number, None, ConnectionError("the other end has closed the connection"))

    def _settle(self, number: int, result: Any, error: Exception | None) -> None:
        answer, deadline = self._pending.pop(number)
        if deadline is not None:
            deadline.cancel()
        if answer.done():  # its caller was cancelled
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)


async def serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: Callable[..., Awaitable[Any]]
) -> None:
    """Answer calls until the other end closes the connection, each as soon as its result is there.

    Args:
        handle: called with the method's name and its arguments; gives the result as JSON values.
    """
    running: set[asyncio.Task[None]] = set()
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            number, method, arguments = await _receive(reader)
            task = asyncio.create_task(_answer(writer, number, handle(method, *arguments)))
            running.add(task)
            task.add_done_callback(running.discard)
    writer.close()


async def _answer(writer: asyncio.StreamWriter, number: int, call: Awaitable[Any]) -> None:
    try:
        frame = _pack([number, await call, None], repr)
    except core.EnvError as error:
        name = next(name for name, kind in ERRORS.items() if isinstance(error, kind))
        frame = _pack([number, None, [name, str(error)]], repr)
    except Exception as error:  # noqa: BLE001 - a bug in an environment is raised where the method was called
        message = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        frame = _pack([number, None, ["RuntimeError", message]], repr)
    writer.write(frame)


def _pack(content: Any, default: Callable[[Any], Any]) -> bytes:
    """A frame; ``default`` converts what is no JSON value."""
    data = json.dumps(content, separators=(",", ":"), default=default).encode()
    return len(data).to_bytes(HEAD) + data


async def _receive(reader: asyncio.StreamReader) -> Any:
    """The content of the next frame; raises asyncio.IncompleteReadError where the stream ended."""
    size = int.from_bytes(await reader.readexactly(HEAD))
    return json.loads(await reader.readexactly(size))
