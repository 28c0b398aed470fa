"""The application: the worlds' routes, pages about them, and the life of the sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST

from agentgym_rl.envs.protocol.server.answers import routes
from agentgym_rl.envs.protocol.server.gate import Alone, Gate
from agentgym_rl.envs.protocol.server.memory import give_back
from agentgym_rl.envs.protocol.server.metrics import Metrics
from agentgym_rl.envs.protocol.server.openapi import openapi
from agentgym_rl.envs.protocol.server.sessions import Sessions
from agentgym_rl.envs.protocol.server.settings import Settings
from agentgym_rl.envs.protocol.server.siblings import Siblings
from agentgym_rl.envs.protocol.wire import dialect

ABOUT = "Text worlds in AgentGym's protocol: /create a session, /reset it to a task, /step until done, /close."


@dataclass(frozen=True, slots=True)
class Place:
    """A worker's place among several."""

    worker: int
    folder: Path
    """Where the workers' sockets are."""


def create_app(settings: Settings, place: Place | None = None, clock: Callable[[], float] = time.monotonic) -> FastAPI:
    """The ASGI application of one worker.

    Args:
        place: where it stands among ``settings.workers``; None when it stands alone.
        clock: time in seconds, for the sessions' time to live.

    Raises:
        EnvError: a world is unknown or cannot be loaded.
        ValueError: an option of a world is wrong.
    """
    worker, workers = (0, 1) if place is None else (place.worker, settings.workers)
    metrics = Metrics()
    sessions = Sessions(settings.max_sessions // workers, settings.session_ttl, worker, workers, clock)
    table = routes(settings, sessions, metrics)
    siblings = None if place is None else Siblings(place.folder, worker, workers, table)

    async def expire() -> None:
        expired = [session.world for session in await sessions.expire()]
        for world in expired:
            counters = metrics.of(world)
            counters.expired.inc()
            counters.open.dec()
        if expired:
            give_back()

    async def sweep() -> None:
        while True:
            await asyncio.sleep(min(settings.session_ttl / 4, 30.0))
            await expire()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if siblings is not None:
            await siblings.start()
        sweeping = asyncio.create_task(sweep())
        yield
        sweeping.cancel()
        if siblings is not None:
            siblings.stop()
        await sessions.close_all()

    app = FastAPI(title="agentgym-rl", description=ABOUT, lifespan=lifespan)
    app.add_middleware(Gate, routes=table, settings=settings, desk=siblings or Alone())
    app.state.sessions, app.state.expire = sessions, expire
    _add_pages(app, settings, metrics)
    described = openapi(app, table)
    app.openapi = lambda: described  # type: ignore[method-assign]
    return app


def _add_pages(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    names = list(settings.worlds)

    def hello(name: str) -> Callable[[], str]:
        text = f"This is environment {name}." if dialect(name).key == "id" else "ok"
        return lambda: text

    for name in names:
        app.get(f"/{name}", summary=f"Name of {name}")(hello(name))
    app.get("/", summary="Name")(hello(names[0]) if len(names) == 1 else lambda: f"Worlds: {', '.join(names)}")

    @app.get("/health", summary="Whether the server is up; needs no token")
    async def health() -> dict[str, object]:
        return {"status": "ok", "worlds": names}

    @app.get("/metrics", summary="Counters in Prometheus' text format", response_class=Response)
    async def counters() -> Response:
        return Response(metrics.page(), media_type=CONTENT_TYPE_LATEST)
