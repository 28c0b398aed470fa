"""From a request to its reply, without HTTP around it: the routes of all worlds in one worker."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from prometheus_client import Histogram

from agentgym_rl.envs.core import EnvError, ProtocolError, TaskNotFound
from agentgym_rl.envs.protocol.server.metrics import Metrics
from agentgym_rl.envs.protocol.server.sessions import Full, Sessions
from agentgym_rl.envs.protocol.server.settings import Settings
from agentgym_rl.envs.protocol.server.world import Body, Malformed, UnknownSession, World

log = logging.getLogger(__name__)

STATUS: dict[type[EnvError], int] = {UnknownSession: 404, TaskNotFound: 404, ProtocolError: 409}
"""Statuses of a world's errors in the family with ``env_idx``; others are 500."""


class Reply(NamedTuple):
    status: int
    body: bytes
    """JSON."""


@dataclass(frozen=True, slots=True)
class Route:
    """What lies at one path."""

    method: str
    name: str
    """Path under the world, such as ``/step``."""
    world: World
    run: Callable[[Body], Awaitable[Any]]
    seconds: Histogram

    def parse(self, raw: bytes, query: str) -> Body:
        """The request's fields.

        Raises:
            Malformed: the body is no JSON object.
        """
        if self.method == "GET":
            return {key: _number(value) for key, value in parse_qsl(query)}
        if not raw and self.name == "/create":
            return {}
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise Malformed("", f"is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise Malformed("", "should be a JSON object")
        return found

    async def answer(self, request: Body) -> Reply:
        """Run the operation. Nothing is raised: whatever goes wrong becomes a reply."""
        started = time.perf_counter()
        try:
            reply = Reply(200, dumps(await self.run(request)))
        except (EnvError, Malformed, Full) as error:
            reply = self.refuse(error)
        except Exception:  # the one place where a fault of a world or of ours meets the client
            log.exception("%s %s of %s failed", self.method, self.name, self.world.name)
            reply = detail(500, "the server failed; its log says why")
            self.world.metrics.errors.labels(self.world.name, self.name, 500).inc()
        self.seconds.observe(time.perf_counter() - started)
        return reply

    def refuse(self, error: EnvError | Malformed | Full) -> Reply:
        """What a client is told of an error; in AgentGym's family with ``id`` a world's comes under status 200.

        ``type`` is the error's class in :mod:`agentgym_rl.envs.core`.
        """
        if isinstance(error, Malformed):
            place = ["body" if self.method == "POST" else "query", *filter(None, [error.where])]
            reply = Reply(422, dumps({"detail": [{"type": "value_error", "loc": place, "msg": str(error)}]}))
        elif isinstance(error, Full):
            reply = detail(503, str(error))
        elif self.world.dialect.key == "id":
            reply = Reply(200, dumps({"error": str(error), "type": type(error).__name__}))
        else:
            status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
            reply = Reply(status, dumps({"detail": str(error), "type": type(error).__name__}))
        self.world.metrics.errors.labels(self.world.name, self.name, reply.status).inc()
        return reply


def routes(settings: Settings, sessions: Sessions, metrics: Metrics) -> dict[str, Route]:
    """The routes of all worlds, by path.

    Raises:
        UnknownEnv, MissingExtra: see :func:`agentgym_rl.envs.env_class`.
        ValueError: an option of a world is wrong.
    """
    found = {}
    for name, options in settings.worlds.items():
        world = World(name, options, sessions, metrics.of(name))
        for (method, path), run in world.operations.items():
            route = Route(method, path, world, run, world.metrics.seconds.labels(name, path))
            for prefix in [f"/{name}"] if len(settings.worlds) > 1 else ["", f"/{name}"]:
                found[prefix + path] = route
    return found


def dumps(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":"), default=repr).encode()


def detail(status: int, text: str) -> Reply:
    return Reply(status, dumps({"detail": text}))


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text
