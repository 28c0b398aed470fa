"""HTTP of the gateway. Needs the extra ``serve``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from agentgym_rl.rollout.gateway import anthropic, openai
from agentgym_rl.rollout.gateway.body import body_of
from agentgym_rl.rollout.gateway.form import Form
from agentgym_rl.rollout.gateway.request import Refusal
from agentgym_rl.rollout.gateway.session import Session, Sessions

BODY = 16 << 20
"""Most bytes of a body."""
GONE = 499
"""Status of a request whose client has left, for the log."""


Endpoint = Callable[[HttpRequest], Awaitable[Response]]
Handle = Callable[[Session, HttpRequest], Awaitable[Response]]
Open = Callable[[str, Mapping[str, Any]], Session]
"""Opens a session for whoever has a key, by what a body asks for; raises Refusal."""


def create_app(sessions: Sessions, opens: Open | None = None) -> Starlette:
    """The ASGI application. Each path is there with the session's key in a header, and with ``/key/<key>`` in it, for
    a harness that can set nothing but a base URL.

    Args:
        opens: opens sessions over HTTP, which then can be closed, too.
    """

    async def sweep() -> None:
        while True:
            await asyncio.sleep(min(sessions.ttl / 4, 30.0))
            sessions.reclaim()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(sweep())
        yield
        sweeping.cancel()

    def of_session(method: str, path: str, form: Form, handle: Handle) -> Route:
        return Route(f"/sessions/{{id}}{path}", _endpoint(form, partial(_found, sessions, handle)), methods=[method])

    table: tuple[tuple[str, str, Form, Handle], ...] = (
        ("POST", "/v1/chat/completions", openai.FORM, partial(_answer, openai.FORM)),
        ("POST", "/v1/messages", anthropic.FORM, partial(_answer, anthropic.FORM)),
        ("GET", "/v1/models", openai.FORM, _models),
        ("POST", "/reward", openai.FORM, _reward),
    )
    routes = [
        of_session(method, f"{prefix}{path}", form, handle)
        for method, path, form, handle in table
        for prefix in ("", "/key/{key}")
    ]
    routes.append(Route("/sessions", _endpoint(openai.FORM, partial(_opened, opens or _refused)), methods=["POST"]))
    if opens is not None:
        routes.append(of_session("DELETE", "", openai.FORM, _closed))
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _lost})


def _endpoint(form: Form, work: Endpoint) -> Endpoint:
    """Answers a refusal in an API's form, and nothing where the client has left."""

    async def endpoint(http: HttpRequest) -> Response:
        try:
            return await work(http)
        except Refusal as refusal:
            # Both official clients repeat a request after 409 and 5xx, unless they are told not to.
            return _json(form.refuse(refusal), refusal.status, {"x-should-retry": "false"})
        except ClientDisconnect:
            return Response(status_code=GONE)

    return endpoint


async def _found(sessions: Sessions, handle: Handle, http: HttpRequest) -> Response:
    session = sessions.find(http.path_params["id"], http.path_params.get("key") or _key(http.headers))
    return await handle(session, http)


def _refused(key: str, body: Mapping[str, Any]) -> Session:
    raise Refusal("a run opens its sessions itself; `agentgym-rl gateway` serves sessions to others", "no_session", 403)


async def _opened(opens: Open, http: HttpRequest) -> Response:
    session = opens(_key(http.headers), await _body(http))
    address = f"{http.base_url}sessions/{session.id}"
    found = {"id": session.id, "key": session.key, "base_url": f"{address}/v1", "reward_url": f"{address}/reward"}
    return _json(found | {"url_with_key": f"{address}/key/{session.key}"})


async def _closed(session: Session, http: HttpRequest) -> Response:
    session.over.set()
    return _json({"reward": session.reward})


async def _answer(form: Form, session: Session, http: HttpRequest) -> Response:
    request = form.read(await _body(http))
    left = asyncio.ensure_future(http.receive())  # the body has been read: what comes is that the client leaves
    try:
        reply = await session.answer(request, lambda: not left.done())
    finally:
        left.cancel()
    if reply is None:
        return Response(status_code=GONE)
    headers = {"x-ignored-parameters": ", ".join(request.ignored)} if request.ignored else {}
    if request.stream:
        return Response(b"".join(form.stream(request, reply)), headers=headers, media_type="text/event-stream")
    return _json(form.write(request, reply), headers=headers)


async def _reward(session: Session, http: HttpRequest) -> Response:
    reward = (await _body(http)).get("reward")
    if not isinstance(reward, int | float) or isinstance(reward, bool) or not 0 <= reward <= 1:
        raise Refusal('the body should be {"reward": r} with a number r from 0 to 1')
    session.end(float(reward))
    return _json({"reward": session.reward})


async def _models(session: Session, http: HttpRequest) -> Response:
    return _json({"object": "list", "data": [{"id": "policy", "object": "model", "created": 0, "owned_by": "run"}]})


async def _lost(_: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refusal = Refusal(f"{error.detail}; a session has /v1/chat/completions, /v1/messages, /v1/models and /reward")
    return _json(openai.refuse(refusal), error.status_code, error.headers)


async def _body(http: HttpRequest) -> dict[str, Any]:
    raw = bytearray()
    async for part in http.stream():
        raw += part
        if len(raw) > BODY:
            raise Refusal(f"the body is larger than {BODY} bytes", "too_large", 413)
    return body_of(bytes(raw))


def _key(headers: Mapping[str, str]) -> str:
    """The key of a request: OpenAI's clients send it as a bearer token, Anthropic's as ``x-api-key``."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return headers.get("x-api-key") or (key if scheme.lower() == "bearer" else "")


def _json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(body), status, headers, media_type="application/json")
