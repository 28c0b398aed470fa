"""Calls between processes: results, errors by type, deadlines, and the end of a connection."""

import asyncio
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.envs import rpc
from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable, TaskNotFound


class JavaGone(EnvUnavailable):
    """An error of another module."""


async def handle(method, *arguments):
    match method:
        case "echo":
            return list(arguments)
        case "sleep":
            await asyncio.sleep(arguments[0])
            return arguments[0]
        case "raise":
            raise {"task": TaskNotFound, "slow": EnvTimeout, "java": JavaGone, "bug": KeyError}[arguments[0]]("why")
        case "object":
            return Path("x")


def connected(check):
    """Run ``check`` with a connection to :func:`handle`."""

    async def main():
        ours, theirs = socket.socketpair()
        serving = asyncio.create_task(rpc.serve(*await asyncio.open_connection(sock=theirs), handle))
        connection = rpc.Connection(*await asyncio.open_connection(sock=ours))
        try:
            await check(connection)
        finally:
            connection.close()
            await connection.wait_closed()
            await serving

    asyncio.run(main())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=4))
def test_arguments_and_results_are_json(values):
    async def check(connection):
        assert await connection.call("echo", values) == values

    connected(check)


def test_paths_may_be_arguments_and_other_objects_may_not():
    async def check(connection):
        assert await connection.call("echo", [Path("a") / "b"]) == ["a/b"]
        with pytest.raises(TypeError):
            await connection.call("echo", [object()])
        assert await connection.call("object", []) == repr(Path("x"))
        assert await connection.call("echo", ["x" * 3_000_000]) == ["x" * 3_000_000]

    connected(check)


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("task", TaskNotFound, "^why$"),
        ("slow", EnvTimeout, "^why$"),
        ("java", EnvUnavailable, "^why$"),
        ("bug", RuntimeError, "KeyError: 'why'\nTraceback"),
    ],
)
def test_errors_keep_their_type(name, kind, says):
    async def check(connection):
        with pytest.raises(kind, match=says) as raised:
            await connection.call("raise", [name])
        assert raised.type is kind
        assert await connection.call("echo", []) == []

    connected(check)


def test_answers_come_as_soon_as_they_are_there():
    async def check(connection):
        slow = asyncio.create_task(connection.call("sleep", [0.2]))
        await asyncio.sleep(0)
        assert await connection.call("sleep", [0]) == 0
        assert not slow.done()
        assert await slow == 0.2

    connected(check)


def test_who_waited_for_an_answer_in_vain_finds_the_connection_closed():
    async def check(connection):
        with pytest.raises(TimeoutError):
            await connection.call("sleep", [60], 0.01)
        assert connection.closed

    connected(check)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_call_without_an_answer_closes_the_connection(cancelled):
    async def check(connection):
        hangs = asyncio.create_task(connection.call("sleep", [60], 0.1))
        other = asyncio.create_task(connection.call("sleep", [60]))
        await asyncio.sleep(0.01)
        if cancelled:
            hangs.cancel()
        with pytest.raises(ConnectionError):
            await other
        with pytest.raises(asyncio.CancelledError if cancelled else TimeoutError):
            await hangs
        assert connection.closed
        with pytest.raises(ConnectionError):
            await connection.call("echo", [])

    connected(check)
