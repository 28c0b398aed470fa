"""From a request to its response, without HTTP: the routes of all environments in one worker."""

import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from agentgym_rl.envs.core import EnvError, ProtocolError, TaskNotFound
from agentgym_rl.envs.protocol.server.metrics import Metrics
from agentgym_rl.envs.protocol.server.operations import Body, Malformed, Operations, UnknownSession
from agentgym_rl.envs.protocol.server.sessions import Full, Sessions
from agentgym_rl.envs.protocol.server.settings import Settings
from agentgym_rl.envs.protocol.wire import Dialect

log = logging.getLogger(__name__)

STATUS: dict[type[EnvError], int] = {UnknownSession: 404, TaskNotFound: 404, ProtocolError: 409}
"""Statuses of an environment's errors in the family with ``env_idx``; others are 500."""


class Response(NamedTuple):
    status: int
    body: bytes
    """JSON."""


@dataclass(frozen=True, slots=True)
class Route:
    """One operation of one environment at its path."""

    method: str
    name: str
    """Path under the environment, such as ``/step``."""
    env: str
    dialect: Dialect
    run: Callable[[Body], Awaitable[Any]]
    metrics: Metrics

    def parse(self, raw: bytes, query: str) -> Body:
        """The request's fields. Raises Malformed: the body is no JSON object."""
        if self.method == "GET":
            return {key: _number(value) for key, value in parse_qsl(query)}
        if not raw and self.name == "/create":
            return {}
        try:
            parsed = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise Malformed("", f"is not JSON: {error}") from error
        if not isinstance(parsed, dict):
            raise Malformed("", "should be a JSON object")
        return parsed

    async def answer(self, request: Body) -> Response:
        """Run the operation. Every error becomes a response."""
        started = time.perf_counter()
        try:
            response = Response(200, dumps(await self.run(request)))
        except (EnvError, Malformed, Full) as error:
            response = self.refuse(error)
        except Exception:  # a bug, of an environment or of the server, must not end the server
            log.exception("%s %s of %s failed", self.method, self.name, self.env)
            response = self._count(detail(500, "the server failed; its log says why"))
        self.metrics.seconds.labels(self.env, self.name).observe(time.perf_counter() - started)
        return response

    def refuse(self, error: EnvError | Malformed | Full) -> Response:
        """The response to an error; an environment's error has status 200 in AgentGym's family with ``id``.

        ``type`` is the error's class in :mod:`agentgym_rl.envs.core`.
        """
        if isinstance(error, Malformed):
            place = ["body" if self.method == "POST" else "query", *filter(None, [error.where])]
            response = Response(422, dumps({"detail": [{"type": "value_error", "loc": place, "msg": str(error)}]}))
        elif isinstance(error, Full):
            response = detail(503, str(error))
        elif self.dialect.key == "id":
            response = Response(200, dumps({"error": str(error), "type": type(error).__name__}))
        else:
            status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
            response = Response(status, dumps({"detail": str(error), "type": type(error).__name__}))
        return self._count(response)

    def _count(self, response: Response) -> Response:
        self.metrics.errors.labels(self.env, self.name, response.status).inc()
        return response


def routes(settings: Settings, sessions: Sessions, metrics: Metrics) -> dict[str, Route]:
    """The routes of all environments, by path.

    Raises:
        UnknownEnv, MissingExtra: see :func:`agentgym_rl.envs.env_class`.
        ValueError: an option of an environment is wrong.
    """
    by_path = {}
    for name, options in settings.envs.items():
        operations = Operations(name, options, sessions, metrics)
        metrics.expired.labels(name)  # so that the page lists it at 0
        for (method, path), run in operations.table.items():
            metrics.seconds.labels(name, path)
            route = Route(method, path, name, operations.dialect, run, metrics)
            for prefix in [f"/{name}"] if len(settings.envs) > 1 else ["", f"/{name}"]:
                by_path[prefix + path] = route
    return by_path


def dumps(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":"), default=repr).encode()


def detail(status: int, text: str) -> Response:
    return Response(status, dumps({"detail": text}))


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text
