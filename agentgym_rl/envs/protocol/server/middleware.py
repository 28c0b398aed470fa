"""HTTP around the routes: token, limits, content type, and the worker that answers."""

import hmac

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentgym_rl.envs.protocol.server.operations import Malformed
from agentgym_rl.envs.protocol.server.peers import Peers
from agentgym_rl.envs.protocol.server.routes import Response, Route, detail
from agentgym_rl.envs.protocol.server.settings import Settings

OPEN = frozenset({"/health"})
"""Paths that need no token."""
OTHERS = detail(403, "web pages of others may not use this server")


class Middleware:
    """Answers the requests to environments and passes all others on to ``app``.

    A session has a dozen small requests, so these skip the framework's router and validation.
    """

    def __init__(self, app: ASGIApp, routes: dict[str, Route], settings: Settings, peers: Peers | None) -> None:
        self._app, self._routes, self._peers = app, routes, peers
        self._limit = settings.body_limit
        self._bearer = None if settings.token is None else f"Bearer {settings.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        headers = dict(scope["headers"])
        if not self._allowed(scope["path"], headers):
            refused = detail(401, "this server wants its token: Authorization: Bearer <token>")
            return await _refuse(scope, receive, send, refused, (b"www-authenticate", b"Bearer"))
        if scope["type"] == "websocket":
            # Any web page can open a socket to any server, but browsers tell whose page it is.
            if not _own_page(headers):
                return await _refuse(scope, receive, send, OTHERS)
            return await self._app(scope, receive, send)
        path: str = scope["path"]
        route = self._routes.get(path)
        if route is not None and scope["method"] != route.method:
            return await _send(send, detail(405, f"{path} takes {route.method}"), (b"allow", route.method.encode()))
        raw: bytes | Response = b""
        if scope["method"] == "POST":
            raw = await self._body(headers, receive)
        if isinstance(raw, Response):
            return await _send(send, raw)
        if route is None:
            return await self._app(scope, _again(raw, receive), send)
        await _send(send, await self._answer(path, route, scope["query_string"].decode("latin-1"), raw))

    def _allowed(self, path: str, headers: dict[bytes, bytes]) -> bool:
        if self._bearer is None or path in OPEN:
            return True
        return hmac.compare_digest(headers.get(b"authorization", b""), self._bearer)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | Response:
        """The body of a request, or why it is refused."""
        length = headers.get(b"content-length", b"")
        raw = None if length.isdigit() and int(length) > self._limit else await _read(receive, self._limit)
        if raw is None:
            return detail(413, f"the body is larger than {self._limit} bytes")
        # A web page cannot send this type to another server, so no page can use one on its reader's machine.
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if raw and kind != b"application/json":
            return detail(415, "the body should be JSON with Content-Type: application/json")
        return raw if raw or _own_page(headers) else OTHERS

    async def _answer(self, path: str, route: Route, query: str, raw: bytes) -> Response:
        try:
            request = route.parse(raw, query)
        except Malformed as error:
            return route.refuse(error)
        if self._peers is None:
            return await route.answer(request)
        return await self._peers.answer(path, route, request, raw, query)


def _own_page(headers: dict[bytes, bytes]) -> bool:
    """Whether a page of this server, or no page at all, opens a socket or sends a request."""
    origin = headers.get(b"origin")
    return origin is None or origin.partition(b"://")[2] == headers.get(b"host")


def _again(raw: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives a body that was read already, and then what follows it."""
    waiting: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]

    async def first_the_body() -> Message:
        return waiting.pop() if waiting else await receive()

    return first_the_body


async def _refuse(
    scope: Scope, receive: Receive, send: Send, response: Response, *headers: tuple[bytes, bytes]
) -> None:
    """Answer a request, or a socket before it is open, which then gets status 403."""
    if scope["type"] == "http":
        return await _send(send, response, *headers)
    await receive()
    await send({"type": "websocket.close", "code": 1008, "reason": ""})


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
