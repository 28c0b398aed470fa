"""What a site answers: pages, made of HTML in which every text is escaped."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

LONGEST = 2_000
"""Characters of a text that a visitor may write."""

Row = sqlite3.Row


class Html(str):
    """Text that is HTML already."""


def tag(element: str, /, *content: object, **attributes: object) -> Html:
    """An element. Content that is not :class:`Html` is escaped; an attribute that is None or False is left out, and
    the underscore after ``class_`` is dropped."""
    given = "".join(
        f' {key.rstrip("_")}="{escape("" if value is True else str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    inner = "".join(one if isinstance(one, Html) else escape(str(one)) for one in content)
    return Html(f"<{element}{given}>{inner}" if element == "input" else f"<{element}{given}>{inner}</{element}>")


def link(url: str, text: object) -> Html:
    return tag("a", text, href=url)


def items(lines: Iterable[Sequence[object]], **attributes: object) -> Html:
    """A list; each entry is a sequence of contents."""
    return tag("ul", *(tag("li", *line) for line in lines), **attributes)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A table; cells of a column have the class of its name in small letters."""
    body = (
        tag("tr", *(tag("td", cell, class_=name.lower()) for name, cell in zip(head, row, strict=True))) for row in rows
    )
    return tag("table", tag("tr", *(tag("th", name) for name in head)), *body)


def facts(pairs: Mapping[str, object]) -> Html:
    """Names and values, each with an id: that of ``Full name`` is ``full-name``."""
    rows = (
        tag("tr", tag("th", key), tag("td", value, id=key.lower().replace(" ", "-"))) for key, value in pairs.items()
    )
    return tag("table", *rows)


def field(label: str, name: str, kind: str = "text") -> Html:
    return tag("p", tag("label", label, " ", tag("input", name=name, type=kind, required=True)))


def area(label: str, name: str, text: str = "") -> Html:
    box = tag("textarea", text, name=name, rows=3, cols=60, required=True)
    return tag("p", tag("label", label, " ", box))


def choice(label: str, name: str, values: Iterable[object], chosen: object = None) -> Html:
    options = (tag("option", value, selected=value == chosen) for value in values)
    return tag("p", tag("label", label, " ", tag("select", *options, name=name)))


def form(action: str, button: str, *fields: Html, method: str = "post") -> Html:
    return tag("form", *fields, tag("button", button), action=action, method=method)


def dollars(cents: int) -> str:
    return f"${cents // 100}.{cents % 100:02}"


@dataclass(frozen=True, slots=True)
class Page:
    """A page to be shown."""

    title: str
    body: tuple[object, ...]
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
    given: Mapping[str, str]
    """Of the form, or of the query."""

    @property
    def member(self) -> str:
        """The user.

        Raises:
            Failed: nobody is logged in.
        """
        if not self.user:
            raise Failed(403, "Log in first.")
        return self.user

    def rows(self, sql: str, *values: object) -> list[Row]:
        return self.db.execute(sql, values).fetchall()

    def value(self, sql: str, *values: object) -> Any:
        """The first column of the first row.

        Raises:
            Failed: there is no row.
        """
        return self.one(sql, *values)[0]

    def one(self, sql: str, *values: object) -> Row:
        """The first row.

        Raises:
            Failed: there is none.
        """
        found: Row | None = self.db.execute(sql, values).fetchone()
        if found is None:
            raise Failed(404, "There is no such page.")
        return found

    def change(self, sql: str, *values: object) -> int:
        """Carry out a change; the number of the new row, if it makes one."""
        return self.db.execute(sql, values).lastrowid or 0

    def text(self, name: str) -> str:
        """What was written into a field.

        Raises:
            Failed: nothing, or too much.
        """
        text = self.given.get(name, "").strip()
        if not text or len(text) > LONGEST:
            raise Failed(400, f"{name.capitalize()}: write 1 to {LONGEST} characters.")
        return text

    def number(self, name: str, most: int) -> int:
        """A number from 1 on that was chosen.

        Raises:
            Failed: it is no number, or too large.
        """
        text = self.given.get(name, "").partition(" ")[0]
        if not text.isascii() or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= most:
            raise Failed(400, f"{name.capitalize()}: give a number from 1 to {most}.")
        return int(text)


def key(text: str) -> int:
    """The number in an address.

    Raises:
        Failed: it is none.
    """
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise Failed(404, "There is no such page.")
    return int(text)
