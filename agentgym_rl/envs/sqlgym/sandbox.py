"""A SQLite database that can only be read, by queries that end."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from agentgym_rl.envs.core import EnvTimeout

Row = tuple[object, ...]

TICK = 1000
"""Instructions of SQLite's virtual machine between two looks at the limits."""
SECONDS = 60.0
"""A query that takes more processor time is given up with an error that is not the agent's; instructions should run out
before."""
CHARACTERS = 10_000_000
"""Characters of text a result may have."""

_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_PRAGMAS = {"table_info", "foreign_key_list"}
_NO_FUNCTIONS = {"load_extension", "random", "randomblob"}


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
    """A connection on which nothing but reading works.

    The file is opened read-only, ``query_only`` is set, and SQLite's authorizer denies whatever is not a SELECT: no
    writing, no ATTACH, no extensions, of the pragmas only those that show the schema, and no random functions.
    """

    def __init__(self, connection: sqlite3.Connection, limits: Limits) -> None:
        self._connection = connection
        self._limits = limits
        self._ticks = 0
        self._allowed: int | None = None
        self._deadline = 0.0
        connection.text_factory = lambda raw: raw.decode(errors="replace")
        connection.execute("PRAGMA query_only = 1")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.text)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(self._tick, TICK)

    @classmethod
    def of_file(cls, path: Path, limits: Limits) -> Sandbox:
        """A database on disk."""
        address = f"file:{quote(str(path.resolve()))}?mode=ro"
        return cls(sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None), limits)

    @classmethod
    def of_image(cls, image: bytes, limits: Limits) -> Sandbox:
        """A copy, in memory, of a serialized database."""
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        connection.deserialize(image)
        return cls(connection, limits)

    def run(self, query: str, trusted: bool = False) -> list[Row]:
        """The rows of a query; a trusted one may take as many instructions as it likes.

        Raises:
            Refused: it is no single reading query, or it goes beyond the limits.
            EnvTimeout: it took more than :data:`SECONDS`.
        """
        self._ticks = 0
        self._allowed = None if trusted else self._limits.instructions // TICK
        self._deadline = time.thread_time() + SECONDS
        try:
            return self._fetch(self._connection.execute(query))
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:  # ValueError: text that is not Unicode
            if self._allowed is not None and self._ticks > self._allowed:
                raise Refused("the query takes too long") from error
            if time.thread_time() > self._deadline:
                raise EnvTimeout(
                    f"a query took more than {SECONDS:g} seconds of processor time: {query[:200]!r}"
                ) from error
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
        characters = 0
        for row in cursor:
            rows.append(row)
            characters += sum(len(value) for value in row if isinstance(value, (str, bytes)))
            if len(rows) > self._limits.rows or characters > CHARACTERS:
                raise Refused("the result is too large")
        return rows

    def _tick(self) -> bool:
        """Called every :data:`TICK` instructions; true stops the query."""
        self._ticks += 1
        return (self._allowed is not None and self._ticks > self._allowed) or time.thread_time() > self._deadline


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    allowed = action in _ACTIONS
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = second is not None and second.lower() not in _NO_FUNCTIONS
    elif action == sqlite3.SQLITE_PRAGMA:
        allowed = first is not None and first.lower() in _PRAGMAS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
