"""HTTP around the routes: token, limits, content type, and the worker that answers."""

from __future__ import annotations

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from agentgym_rl.envs.protocol.server.operations import Malformed
from agentgym_rl.envs.protocol.server.peers import Peers
from agentgym_rl.envs.protocol.server.routes import Response, Route, detail
from agentgym_rl.envs.protocol.server.settings import Settings

OPEN = frozenset({"/health"})
"""Paths that need no token."""


class Middleware:
    """Answers the requests to environments and passes all others on to ``app``.

    A session has a dozen small requests, so these skip the framework's router and validation.
    """

    def __init__(self, app: ASGIApp, routes: dict[str, Route], settings: Settings, peers: Peers | None) -> None:
        self._app, self._routes, self._peers = app, routes, peers
        self._limit = settings.body_limit
        self._bearer = None if settings.token is None else f"Bearer {settings.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path: str = scope["path"]
        headers = dict(scope["headers"])
        if self._bearer is not None and path not in OPEN:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, self._bearer):
                refused = detail(401, "this server wants its token: Authorization: Bearer <token>")
                return await _send(send, refused, (b"www-authenticate", b"Bearer"))
        route = self._routes.get(path)
        if route is None:
            return await self._app(scope, receive, send)
        if scope["method"] != route.method:
            return await _send(send, detail(405, f"{path} takes {route.method}"), (b"allow", route.method.encode()))
        await _send(send, await self._answer(path, route, scope["query_string"].decode("latin-1"), headers, receive))

    async def _answer(
        self, path: str, route: Route, query: str, headers: dict[bytes, bytes], receive: Receive
    ) -> Response:
        raw = b""
        if route.method == "POST":
            length = headers.get(b"content-length", b"")
            read = None if length.isdigit() and int(length) > self._limit else await _read(receive, self._limit)
            if read is None:
                return detail(413, f"the body is larger than {self._limit} bytes")
            raw = read
            # A web page cannot send this type to another server, so no page can use one on its reader's machine.
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if raw and kind != b"application/json":
                return detail(415, "the body should be JSON with Content-Type: application/json")
        try:
            request = route.parse(raw, query)
        except Malformed as error:
            return route.refuse(error)
        if self._peers is None:
            return await route.answer(request)
        return await self._peers.answer(path, route, request, raw, query)


async def _read(receive: Receive, limit: int) -> bytes | None:
    """The body, or None if it is larger than the limit or the client is gone."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > limit:
            return None
        if not message.get("more_body", False):
            return body


async def _send(send: Send, response: Response, *headers: tuple[bytes, bytes]) -> None:
    length = str(len(response.body)).encode()
    start = [(b"content-type", b"application/json"), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": response.status, "headers": start})
    await send({"type": "http.response.body", "body": response.body})
