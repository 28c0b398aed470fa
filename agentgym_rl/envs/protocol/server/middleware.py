"""HTTP around the routes: who may ask, how much, and which worker answers."""

from __future__ import annotations

import hmac
from typing import Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from agentgym_rl.envs.protocol.server.answers import Reply, Route, detail
from agentgym_rl.envs.protocol.server.settings import Settings
from agentgym_rl.envs.protocol.server.world import Body, Malformed

OPEN = frozenset({"/health"})
"""Paths that need no token."""


class Desk(Protocol):
    """Who answers a request: this worker or, where there are several, one of them."""

    async def answer(self, path: str, route: Route, request: Body, raw: bytes, query: str) -> Reply: ...


class Alone:
    """The only worker."""

    async def answer(self, path: str, route: Route, request: Body, raw: bytes, query: str) -> Reply:
        return await route.answer(request)


class Gate:
    """Answers what is addressed to a world and passes everything else on to ``app``.

    A session costs a dozen small requests, so these take neither the router nor the validation of the framework.
    """

    def __init__(self, app: ASGIApp, routes: dict[str, Route], settings: Settings, desk: Desk) -> None:
        self._app, self._routes, self._desk = app, routes, desk
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
                reply = detail(401, "this server wants its token: Authorization: Bearer <token>")
                return await _send(send, reply, (b"www-authenticate", b"Bearer"))
        route = self._routes.get(path)
        if route is None:
            return await self._app(scope, receive, send)
        if scope["method"] != route.method:
            reply = detail(405, f"{path} takes {route.method}")
            return await _send(send, reply, (b"allow", route.method.encode()))
        await _send(send, await self._answer(path, route, scope["query_string"].decode("latin-1"), headers, receive))

    async def _answer(
        self, path: str, route: Route, query: str, headers: dict[bytes, bytes], receive: Receive
    ) -> Reply:
        raw = b""
        if route.method == "POST":
            length = headers.get(b"content-length", b"")
            read = None if length.isdigit() and int(length) > self._limit else await _read(receive, self._limit)
            if read is None:
                return detail(413, f"the body is larger than {self._limit} bytes")
            raw = read
            # A web page cannot send this type to a strange server, so no page drives worlds on its reader's machine.
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if raw and kind != b"application/json":
                return detail(415, "the body should be JSON with Content-Type: application/json")
        try:
            request = route.parse(raw, query)
        except Malformed as error:
            return route.refuse(error)
        return await self._desk.answer(path, route, request, raw, query)


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


async def _send(send: Send, reply: Reply, *headers: tuple[bytes, bytes]) -> None:
    length = str(len(reply.body)).encode()
    start = [(b"content-type", b"application/json"), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": start})
    await send({"type": "http.response.body", "body": reply.body})
