"""A SQLite database that can only be read, by queries that end.

Run as a program, it answers queries in a process of its own, see :mod:`.workers`. It imports the standard library only,
so that the process starts quickly.
"""

import marshal
import os
import sqlite3
import sys
from contextlib import closing
from dataclasses import astuple, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import quote

Row = tuple[object, ...]
Source = bytes | Path
"""A serialized database, or the file of one."""

TICK = 1000
"""Instructions of SQLite's virtual machine between two checks of the limit."""
SIZE = 10_000_000
"""Size of a result: its characters of text, and :data:`NUMBER` for each other value."""
NUMBER = 8
MEMORY = 1 << 30
"""Bytes of memory, and of a temporary file, that a process of queries may use."""
OUT_OF_MEMORY = 3
"""Exit status of a process whose query needs more."""

_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE}
_PRAGMAS = {"table_info", "foreign_key_list"}
_SCHEMA = {"sqlite_master", "sqlite_temp_master"}
_FUNCTIONS = frozenset(Path(__file__).with_name("functions.txt").read_text(encoding="ascii").split())
"""SQLite's functions of numbers, text, time, groups, windows, JSON and full text. What else a build of SQLite has may
draw at random, load files, or read addresses and raw bytes."""


class Refused(Exception):
    """The query could not be carried out; the message is for the agent."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may use."""

    instructions: int
    """Instructions of SQLite's virtual machine: the same on every machine, unlike seconds."""
    text: int
    """Characters of one value."""
    rows: int
    """Rows of the result."""
    seconds: int
    """Seconds of processor time, for queries with long instructions. The instructions should run out before."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the schema."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Name and type of each column."""
    key: tuple[str, ...]
    """The columns of the primary key."""
    references: tuple[tuple[str, str, str], ...]
    """Column, table and column it refers to, of each foreign key."""


class Sandbox:
    """A connection that can only read.

    The file is opened read-only, ``query_only`` is set, and SQLite's authorizer allows SELECT from the database's own
    tables and its schema, known functions, and the pragmas that show the schema; nothing else, whatever SQLite is built
    with.
    """

    def __init__(self, source: Source, limits: Limits) -> None:
        self._limits = limits
        self._ticks = 0
        self._allowed: int | None = None
        self._connection = connection = _connect(source)
        connection.text_factory = lambda raw: raw.decode(errors="replace")
        connection.execute("PRAGMA query_only = 1")
        own = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self._tables = _SCHEMA | {_lower(name) for (name,) in own}
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.text)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_authorizer(self._authorize)
        connection.set_progress_handler(self._tick, TICK)

    def run(self, query: str, trusted: bool = False) -> list[Row]:
        """The rows of a query; the instructions of a trusted one are not limited.

        Raises:
            Refused: it is not a single reading query, or it exceeds the limits.
        """
        self._ticks = 0
        self._allowed = None if trusted else self._limits.instructions // TICK
        try:
            return self._fetch(self._connection.execute(query))
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:  # ValueError: text that is not Unicode
            if self._allowed is not None and self._ticks > self._allowed:
                raise Refused("the query takes too long") from error
            raise Refused(str(error)) from error

    def schema(self) -> list[Table]:
        """The tables, in the order they were made."""
        found = self.run("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'")
        return [self._table(str(name)) for (name,) in found]

    def _table(self, name: str) -> Table:
        columns = self.run(f"PRAGMA table_info({quoted(name)})")
        keys = sorted((place, column) for _, column, _, _, _, place in columns if place)
        references = self.run(f"PRAGMA foreign_key_list({quoted(name)})")
        return Table(
            name,
            tuple((str(column), str(kind)) for _, column, kind, *_ in columns),
            tuple(str(column) for _, column in keys),
            tuple((str(row[3]), str(row[2]), str(row[4] or "")) for row in references),
        )

    def close(self) -> None:
        self._connection.close()

    def _fetch(self, cursor: sqlite3.Cursor) -> list[Row]:
        if cursor.description is None:
            raise Refused("there is no query")
        rows: list[Row] = []
        size = 0
        for row in cursor:
            rows.append(row)
            size += sum(len(value) if isinstance(value, (str, bytes)) else NUMBER for value in row)
            if len(rows) > self._limits.rows or size > SIZE:
                raise Refused("the result is too large")
        return rows

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ:  # no column: rows are counted, perhaps those of a WITH
            allowed = not second or _lower(first) in self._tables
        elif action == sqlite3.SQLITE_FUNCTION:
            allowed = _lower(second) in _FUNCTIONS
        elif action == sqlite3.SQLITE_PRAGMA:
            allowed = _lower(first) in _PRAGMAS
        else:
            allowed = action in _ACTIONS
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def _tick(self) -> bool:
        """Called every :data:`TICK` instructions; true stops the query."""
        self._ticks += 1
        return self._allowed is not None and self._ticks > self._allowed


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _connect(source: Source) -> sqlite3.Connection:
    if isinstance(source, Path):
        address = f"file:{quote(str(source.resolve()))}?mode=ro"
        return sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None)
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    connection.deserialize(source)
    return connection


def _lower(name: str | None) -> str:
    return (name or "").lower()


Answer = tuple[list[Row] | None, str]
"""The rows of a query, or None and why it was refused."""


def request(source: Source, limits: Limits, query: str, trusted: bool) -> bytes:
    """A query as the message that :func:`serve` reads."""
    return marshal.dumps((str(source) if isinstance(source, Path) else source, astuple(limits), query, trusted))


def answer(message: bytes) -> Answer:
    """Read the message that :func:`serve` writes. Unlike pickle, marshal can only build plain values."""
    rows, fault = marshal.loads(message)
    return rows, fault


def serve(connection: Connection) -> None:
    """Answer queries until the other end closes. A query that exceeds processor time or memory ends the process."""
    while True:
        try:
            source, limits, query, trusted = marshal.loads(connection.recv_bytes())
        except EOFError:
            return
        _limit(Limits(*limits))
        try:
            found = _run(Path(source) if isinstance(source, str) else source, Limits(*limits), query, trusted)
            connection.send_bytes(marshal.dumps(found))
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


def _run(source: Source, limits: Limits, query: str, trusted: bool) -> Answer:
    try:
        with closing(Sandbox(source, limits)) as sandbox:
            return sandbox.run(query, trusted), ""
    except (Refused, sqlite3.Error) as error:
        return None, str(error)


def _limit(limits: Limits) -> None:
    """Limit what this process may use from now on."""
    import resource  # Linux and macOS have it

    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + limits.seconds
    ours = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_AS: MEMORY,
        resource.RLIMIT_FSIZE: MEMORY,
        resource.RLIMIT_CORE: 0,
    }
    for what, most in ours.items():
        _, hard = resource.getrlimit(what)  # the machine's own, which may not be raised
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
