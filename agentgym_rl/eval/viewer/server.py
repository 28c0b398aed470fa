"""The viewer as a local web server.

It listens on 127.0.0.1 only and refuses requests for any other host name, so that no other page can read it.

=====================================  ==========================================================
``GET /``, ``viewer.css``/``.js``      the page
``GET /training.html``                 a run's metrics, see :mod:`agentgym_rl.eval.training.page`
``GET /api/index``                     every summary, see :mod:`.listing`; new files are found here
``GET /api/episode?file=F&row=N``      one episode, see :mod:`.detail`
``GET /api/goals?task=T&task=...``     goals of tasks, see :mod:`.goals`
``GET /api/search?text=T``             rows, by file, of the episodes that contain a text
``POST /api/note?file=F&row=N``        a note on an episode, see :mod:`.notes`
=====================================  ==========================================================

With a front page of its own, that is at ``/`` and the episodes of each run at ``/<run>/``.
"""

import json
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.eval import watching
from agentgym_rl.eval.html import style
from agentgym_rl.eval.search import Index
from agentgym_rl.eval.training.page import page as training_page
from agentgym_rl.eval.viewer import notes
from agentgym_rl.eval.viewer.assets import page, script
from agentgym_rl.eval.viewer.detail import detail, encode
from agentgym_rl.eval.viewer.goals import goals
from agentgym_rl.eval.viewer.listing import listing

HOST = "127.0.0.1"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
BODY = 100_000
"""Most bytes of a request."""


class Viewer(ThreadingHTTPServer):
    """Serves episodes until it is shut down.

    Args:
        episodes: a store, or several by their place.
        front: makes the HTML of the page at ``/``, for several.

    Raises:
        OSError: the port is taken.
        ValueError: the notes on a run cannot be read.
    """

    daemon_threads = True

    def __init__(
        self, episodes: EpisodeStore | Mapping[str, EpisodeStore], port: int = 0, front: Callable[[], str] | None = None
    ) -> None:
        self.stores = {"": episodes} if isinstance(episodes, EpisodeStore) else episodes
        self.front = front
        self.lock = Lock()
        self.searching = Lock()
        self.asking = Lock()
        for store in self.stores.values():
            notes.read(store.place)
        super().__init__((HOST, port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Viewer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if not self._is_ours():
            return self._send(HTTPStatus.FORBIDDEN, "text/plain", "this server is for this machine only")
        address = urlsplit(self.path)
        if address.path == "/" and self.server.front is not None:
            return self._front(self.server.front)
        store, rest = self._store(address.path)
        if store is None:
            return self._missing()
        match rest:
            case "":
                self._send(HTTPStatus.OK, "text/html", page("server"))
            case "training.html" if watching.begun(store.place):
                self._send(HTTPStatus.OK, "text/html", training_page([store.place], {}, back="./"), policy=None)
            case "viewer.css":
                self._send(HTTPStatus.OK, "text/css", style())
            case "viewer.js":
                self._send(HTTPStatus.OK, "text/javascript", script())
            case "api/index":
                self._index(store)
            case "api/goals":
                self._goals(store, parse_qs(address.query).get("task", []))
            case "api/search":
                self._search(store, parse_qs(address.query).get("text", [""])[0])
            case "api/episode":
                self._episode(store, parse_qs(address.query))
            case _:
                self._missing()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > BODY:
            self.close_connection = True
            return self._send(HTTPStatus.BAD_REQUEST, "text/plain", f"a request has at most {BODY} bytes, and says so")
        body = self.rfile.read(int(length))
        if not self._is_ours() or self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            return self._send(HTTPStatus.FORBIDDEN, "text/plain", "this server is for its own page only")
        address = urlsplit(self.path)
        store, rest = self._store(address.path)
        if store is None or rest != "api/note":
            return self._missing()
        try:
            file, row = _place(parse_qs(address.query))
            note = notes.Note.read(json.loads(body))
            with self.server.lock:
                store.episode(file, row)
                notes.put(store.place, file, row, note)
        except (KeyError, IndexError):
            return self._missing("there is no such episode")
        except (ValueError, OSError) as error:
            return self._send(HTTPStatus.BAD_REQUEST, "text/plain", f"the note is not kept: {error}")
        self._send(HTTPStatus.OK, "application/json", encode(notes.read(store.place)))

    def _is_ours(self) -> bool:
        """Whether a request names this machine; a page of another host could not."""
        port = self.server.server_address[1]
        return self.headers.get("Host") in (f"{HOST}:{port}", f"localhost:{port}")

    def _store(self, path: str) -> tuple[EpisodeStore | None, str]:
        """Whose episodes a path is about, and what of them."""
        first, slash, rest = path[1:].partition("/")
        if slash and first in self.server.stores:
            return self.server.stores[first], rest
        return self.server.stores.get(""), path[1:]

    def _front(self, front: Callable[[], str]) -> None:
        try:
            text = front()
        except (OSError, ValueError) as error:  # runs were moved, or another version writes them
            return self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error))
        self._send(HTTPStatus.OK, "text/html", text, policy=None)

    def _index(self, store: EpisodeStore) -> None:
        try:
            with self.server.lock:
                store.refresh()
                index = listing(store)
        except (OSError, ValueError) as error:  # the run was moved, or another version writes it
            return self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error))
        self._send(HTTPStatus.OK, "application/json", encode(index))

    def _goals(self, store: EpisodeStore, tasks: list[str]) -> None:
        """An environment may take a minute to get ready; other requests are answered meanwhile."""
        try:
            with self.server.asking:
                answer = goals(tasks, store.place)
        except ValueError as error:
            return self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error))
        self._send(HTTPStatus.OK, "application/json", encode(answer))

    def _search(self, store: EpisodeStore, text: str) -> None:
        """The first search reads all episodes, which takes a while; other requests are answered meanwhile."""
        index = Index(store)
        rows_by_file: dict[str, list[int]] = {}
        try:
            with self.server.searching:
                index.update()
                for file, row in sorted(index.find(text)):
                    rows_by_file.setdefault(file, []).append(row)
        except ValueError as error:
            return self._send(HTTPStatus.BAD_REQUEST, "text/plain", str(error))
        self._send(HTTPStatus.OK, "application/json", encode(rows_by_file))

    def _episode(self, store: EpisodeStore, query: dict[str, list[str]]) -> None:
        try:
            file, row = _place(query)
        except (KeyError, ValueError):
            return self._missing("there is no such episode")
        try:
            episode = store.episode(file, row)
        except (KeyError, IndexError):
            return self._missing("there is no such episode")
        except ValueError as error:  # its file was damaged or moved
            return self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error))
        self._send(HTTPStatus.OK, "application/json", encode(detail(episode)))

    def _missing(self, what: str = "there is nothing here") -> None:
        self._send(HTTPStatus.NOT_FOUND, "text/plain", what)

    def _send(self, status: HTTPStatus, kind: str, text: str, policy: str | None = POLICY) -> None:
        """Answer; a page with a policy of its own needs none."""
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if policy is not None:
            self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def _place(query: dict[str, list[str]]) -> tuple[str, int]:
    """File and row of an episode. Raises KeyError, ValueError: the address does not say."""
    return query["file"][0], int(query["row"][0])
