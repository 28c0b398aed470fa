"""A visitor of the sites, with a database of its own, and the pages as the browser gets them."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from agentgym_rl.envs.browser.assets import Asked, Asset
from agentgym_rl.envs.webarena.sites import forum, shop, tracker, wiki
from agentgym_rl.envs.webarena.sites.html import render
from agentgym_rl.envs.webarena.sites.page import Answer, Failed, Moved, Page, Request
from agentgym_rl.envs.webarena.sites.seed import frozen

HOME = "http://homepage.com"
"""The page that lists the sites."""
MAX_REQUEST_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Site:
    """One of the sites. It exists only within the browser."""

    url: str
    name: str
    navigation: Mapping[str, str]
    answer: Callable[[Request], Answer]


SITES = {
    "shopping": Site("http://shop.test", shop.NAME, shop.NAVIGATION, shop.answer),
    "reddit": Site("http://forum.test", forum.NAME, forum.NAVIGATION, forum.answer),
    "wikipedia": Site("http://wiki.test", wiki.NAME, wiki.NAVIGATION, wiki.answer),
    "gitlab": Site("http://tracker.test", tracker.NAME, tracker.NAVIGATION, tracker.answer),
}
"""By the names that WebArena's task files have for sites of these kinds."""
_BY_URL = {site.url: key for key, site in SITES.items()}
HOSTS = tuple(url.partition("://")[2] for url in (HOME, *_BY_URL))

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Visit:
    """All sites as one visitor finds and changes them.

    Args:
        users: who is logged in, by site.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        self.users = dict(users)
        self.moving = False
        """Whether the browser was told to go on to another page, and has not asked for it yet."""
        self.db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self.db.deserialize(frozen())
        self.db.row_factory = sqlite3.Row

    def serve(self, asked: Asked) -> Asset | None:
        """The answer to a request of the browser; None refuses it."""
        self.moving = False
        parts = urlsplit(asked.url)
        at = f"{parts.scheme}://{parts.netloc}"
        if at == HOME and asked.method == "GET":
            return _asset(render("homepage.html", title="Homepage", sites=SITES.values()))
        if at not in _BY_URL or asked.method not in ("GET", "POST"):
            return None
        key = _BY_URL[at]
        try:
            answer = self._answer(key, asked, parts.path, parts.query)
        except Failed as error:
            answer = Page("Error", "error.html", {"why": error}, error.status)
        if isinstance(answer, Moved):
            self.moving = True
            return _asset("", headers={"Refresh": f"0; url={at}{answer.url}"})
        common = {"title": answer.title, "site": SITES[key], "user": self.users.get(key)}
        return _asset(render(answer.template, **common, **answer.values), answer.status)

    def _answer(self, key: str, asked: Asked, path: str, query: str) -> Answer:
        if len(asked.url) + len(asked.body) > MAX_REQUEST_BYTES:
            raise Failed(413, "This is too much.")
        sent = query if asked.method == "GET" else asked.body.decode(errors="replace")
        fields = dict(parse_qsl(sent, keep_blank_values=True))
        parts = tuple(unquote(part) for part in path.split("/") if part)
        match (asked.method, *parts):
            case ("GET", "login"):
                return Page("Log in", "login.html")
            case ("POST", "login"):
                return self._log_in(key, fields)
            case ("POST", "logout"):
                self.users.pop(key, None)
                return Moved("/")
        return SITES[key].answer(Request(self.db, self.users.get(key, ""), asked.method, parts, fields))

    def _log_in(self, key: str, fields: Mapping[str, str]) -> Moved:
        account = (key, fields.get("user", ""), fields.get("password", ""))
        if not self.db.execute("SELECT 1 FROM users WHERE site = ? AND name = ? AND password = ?", account).fetchone():
            raise Failed(403, "User or password is wrong.")
        self.users[key] = account[1]
        return Moved("/")


def _asset(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Asset:
    body = text.encode(errors="replace")
    return Asset(body, "text/html; charset=utf-8", status, HEADERS | dict(headers or {}))
