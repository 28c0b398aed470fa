"""What a visitor asks of a site, and what it answers: a page by its template, or the address to go on to."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_TEXT_CHARACTERS = 2_000
"""Of a text that a visitor writes."""

Row = sqlite3.Row


@dataclass(frozen=True, slots=True)
class Page:
    """A page to be shown."""

    title: str
    template: str
    """In the folder ``html``; it extends ``frame.html``."""
    values: Mapping[str, object] = field(default_factory=dict)
    """What the template shows; every text is escaped."""
    status: int = 200


@dataclass(frozen=True, slots=True)
class Moved:
    """The address to go on to."""

    url: str


Answer = Page | Moved


class Failed(Exception):
    """The request cannot be carried out; the visitor sees why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class Request:
    """What a visitor of a site asks for."""

    db: sqlite3.Connection
    user: str
    """Empty where nobody is logged in."""
    method: str
    path: tuple[str, ...]
    """Parts of the address between slashes."""
    fields: Mapping[str, str]
    """Of the form, or of the query."""

    @property
    def member(self) -> str:
        """The user. Raises Failed: nobody is logged in."""
        if not self.user:
            raise Failed(403, "Log in first.")
        return self.user

    def rows(self, sql: str, *values: object) -> list[Row]:
        return self.db.execute(sql, values).fetchall()

    def value(self, sql: str, *values: object) -> Any:
        """The first column of the first row. Raises Failed: there is no row."""
        return self.one(sql, *values)[0]

    def one(self, sql: str, *values: object) -> Row:
        """The first row. Raises Failed: there is none."""
        row: Row | None = self.db.execute(sql, values).fetchone()
        if row is None:
            raise Failed(404, "There is no such page.")
        return row

    def change(self, sql: str, *values: object) -> int:
        """Carry out a change; the number of the new row, if it makes one."""
        return self.db.execute(sql, values).lastrowid or 0

    def text(self, name: str) -> str:
        """What was written into a field. Raises Failed: nothing, or too much."""
        text = self.fields.get(name, "").strip()
        if not text or len(text) > MAX_TEXT_CHARACTERS:
            raise Failed(400, f"{name.capitalize()}: write 1 to {MAX_TEXT_CHARACTERS} characters.")
        return text

    def pattern(self, name: str) -> str:
        """What is searched for, anywhere in a text, as LIKE takes it; SQLite refuses long ones."""
        return f"%{self.fields.get(name, '')[:MAX_TEXT_CHARACTERS]}%"

    def number(self, name: str, most: int) -> int:
        """A number from 1 on that was chosen. Raises Failed: it is no number, or too large."""
        text = self.fields.get(name, "").partition(" ")[0]
        if not text.isascii() or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= most:
            raise Failed(400, f"{name.capitalize()}: give a number from 1 to {most}.")
        return int(text)


def key(text: str) -> int:
    """The number in an address. Raises Failed: it is none."""
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise Failed(404, "There is no such page.")
    return int(text)
