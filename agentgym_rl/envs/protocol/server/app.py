"""The ASGI application: the routes of the environments, pages about them, and the expiry of sessions."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST

from agentgym_rl.envs.protocol.server.metrics import Metrics
from agentgym_rl.envs.protocol.server.middleware import Middleware
from agentgym_rl.envs.protocol.server.openapi import openapi
from agentgym_rl.envs.protocol.server.peers import Peers
from agentgym_rl.envs.protocol.server.routes import Route, routes
from agentgym_rl.envs.protocol.server.sessions import Sessions
from agentgym_rl.envs.protocol.server.settings import Settings
from agentgym_rl.envs.protocol.wire import dialect

log = logging.getLogger(__name__)

CLOSE_S = 5.0
"""Most seconds for closing the sessions at the end."""
ABOUT = "Text environments in AgentGym's protocol: /create a session, /reset it to a task, /step until done, /close."


def create_app(
    settings: Settings, worker: int = 0, folder: Path | None = None, clock: Callable[[], float] = time.monotonic
) -> FastAPI:
    """The ASGI application of one worker.

    Args:
        worker: its number among ``settings.workers``.
        folder: of the workers' sockets; None where this is the only worker.
        clock: time in seconds, for the sessions' time to live.

    Raises:
        EnvError: an environment is unknown or cannot be loaded.
        ValueError: an option of an environment is wrong.
    """
    workers = 1 if folder is None else settings.workers
    metrics = Metrics()
    sessions = Sessions(settings.max_sessions, settings.session_ttl, worker, workers, clock)
    table = routes(settings, sessions, metrics)
    peers = None if folder is None else Peers(folder, worker, workers, table)
    app = frame(settings, sessions, metrics, ABOUT, table, peers)
    _add_pages(app, list(settings.envs))
    described = openapi(app, table)
    app.openapi = lambda: described  # type: ignore[method-assign]
    return app


def frame(
    settings: Settings,
    sessions: Sessions,
    metrics: Metrics,
    about: str,
    table: dict[str, Route] | None = None,
    peers: Peers | None = None,
    health: str = "ok",
) -> FastAPI:
    """What every protocol's application has: limits and token, sessions that expire, ``/health`` and ``/metrics``.

    Args:
        about: description of the protocol.
        table: routes that skip the framework.
        health: what ``/health`` says.
    """

    async def expire() -> None:
        for name in await sessions.expire():
            metrics.expired.labels(name).inc()
            metrics.open.labels(name).dec()

    async def sweep() -> None:
        while True:
            await asyncio.sleep(min(settings.session_ttl / 4, 30.0))
            await expire()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if peers is not None:
            await peers.start()
        sweeping = asyncio.create_task(sweep())
        yield
        sweeping.cancel()
        if peers is not None:
            peers.stop()
        try:
            await asyncio.wait_for(sessions.close_all(), CLOSE_S)
        except TimeoutError:
            log.warning("the sessions were not closed within %g s; those that hang are left open", CLOSE_S)

    app = FastAPI(title="agentgym-rl", description=about, lifespan=lifespan)
    app.add_middleware(Middleware, routes=table or {}, settings=settings, peers=peers)
    app.state.sessions, app.state.expire = sessions, expire

    @app.get("/health", summary="Whether the server is up; needs no token")
    async def is_up() -> dict[str, object]:
        return {"status": health, "envs": list(settings.envs)}

    @app.get("/metrics", summary="Counters in Prometheus' text format", response_class=Response)
    async def counters() -> Response:
        return Response(metrics.page(), media_type=CONTENT_TYPE_LATEST)

    return app


def _add_pages(app: FastAPI, names: list[str]) -> None:
    def hello(name: str) -> Callable[[], str]:
        text = f"This is environment {name}." if dialect(name).key == "id" else "ok"
        return lambda: text

    for name in names:
        app.get(f"/{name}", summary=f"Name of {name}")(hello(name))
    app.get("/", summary="Name")(hello(names[0]) if len(names) == 1 else lambda: f"Environments: {', '.join(names)}")
