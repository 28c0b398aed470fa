"""The viewer as a local web server.

It listens on 127.0.0.1 only and refuses requests for any other host name, so that no other page can read it.

=====================================  ==========================================================
``GET /``, ``viewer.css``/``.js``      the page
``GET /api/index``                     every summary, see :mod:`.listing`; new files are found here
``GET /api/episode?file=F&row=N``      one episode, see :mod:`.detail`
=====================================  ==========================================================

With a front page of its own, that is at ``/`` and the episodes of each run at ``/<run>/``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.eval.html import style
from agentgym_rl.eval.viewer.assets import page, script
from agentgym_rl.eval.viewer.detail import detail, encode
from agentgym_rl.eval.viewer.listing import listing

HOST = "127.0.0.1"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class Viewer(ThreadingHTTPServer):
    """Serves episodes until it is shut down.

    Args:
        episodes: a store, or several by their place.
        front: HTML of the page at ``/``, for several.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True

    def __init__(
        self, episodes: EpisodeStore | Mapping[str, EpisodeStore], port: int = 0, front: str | None = None
    ) -> None:
        self.stores = {"": episodes} if isinstance(episodes, EpisodeStore) else episodes
        self.front = front
        self.lock = Lock()
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
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            return self._send(HTTPStatus.FORBIDDEN, "text/plain", "this server is for this machine only")
        address = urlsplit(self.path)
        if address.path == "/" and self.server.front is not None:
            return self._send(HTTPStatus.OK, "text/html", self.server.front, policy=None)
        first, slash, rest = address.path[1:].partition("/")
        place, asked = (first, rest) if slash and first in self.server.stores else ("", address.path[1:])
        if place not in self.server.stores:
            return self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here")
        store = self.server.stores[place]
        match asked:
            case "":
                self._send(HTTPStatus.OK, "text/html", page("server"))
            case "viewer.css":
                self._send(HTTPStatus.OK, "text/css", style())
            case "viewer.js":
                self._send(HTTPStatus.OK, "text/javascript", script())
            case "api/index":
                self._index(store)
            case "api/episode":
                self._episode(store, parse_qs(address.query))
            case _:
                self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here")

    def _index(self, store: EpisodeStore) -> None:
        with self.server.lock:
            store.refresh()
            found = listing(store)
        self._send(HTTPStatus.OK, "application/json", encode(found))

    def _episode(self, store: EpisodeStore, asked: dict[str, list[str]]) -> None:
        try:
            file, row = asked["file"][0], int(asked["row"][0])
            episode = store.episode(file, row)
        except (KeyError, ValueError, IndexError):
            return self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is no such episode")
        self._send(HTTPStatus.OK, "application/json", encode(detail(episode)))

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
