"""The shop as a website: ``agentgym-rl serve webshop --html``. Needs the extra ``serve``.

A page's address holds the task and the actions that lead to it, so the server keeps nothing of its visitors.
"""

import time
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query
from fastapi.responses import HTMLResponse

from agentgym_rl.envs.core import Task, TaskNotFound
from agentgym_rl.envs.protocol.server import Settings
from agentgym_rl.envs.protocol.server.app import frame
from agentgym_rl.envs.protocol.server.metrics import Metrics
from agentgym_rl.envs.protocol.server.sessions import Sessions
from agentgym_rl.envs.webshop import WebShop
from agentgym_rl.envs.webshop.html import HEADERS, document, render
from agentgym_rl.envs.webshop.shop import plain

MAX_ACTIONS = 100
"""Actions in an address."""
LISTED = 20
"""Tasks of each split on the first page."""


def create_site(
    settings: Settings, worker: int = 0, folder: Path | None = None, clock: Callable[[], float] = time.monotonic
) -> FastAPI:
    """The ASGI application of one worker; see :func:`agentgym_rl.envs.protocol.server.create_app`.

    Raises:
        ValueError: an option of the environment is wrong.
    """
    env = WebShop(**settings.envs[WebShop.name])
    env.difficulty(Task(env.name, 0))  # opens the shop now rather than for the first visitor
    sessions = Sessions(settings.max_sessions, settings.session_ttl, worker, settings.workers, clock)
    app = frame(settings, sessions, Metrics(), "WebShop as a website: /<task> is a visit.")

    @app.get("/", summary="Some tasks of each split", response_class=HTMLResponse)
    def tasks() -> HTMLResponse:
        lines = []
        for split, indices in env.spec.splits.items():
            lines.append(f"<h2>{split} ({indices[0]} to {indices[-1]})</h2>")
            lines += (
                f'<a href="/{index}">{index}: {escape(env.goal(Task(env.name, index)))}</a>'
                for index in indices[:LISTED]
            )
        return HTMLResponse(document("\n".join(lines)), headers=HEADERS)

    @app.get("/{index}", summary="The page of a task that the actions lead to", response_class=HTMLResponse)
    def page(
        index: int,
        do: Annotated[list[str], Query(default_factory=list, max_length=MAX_ACTIONS)],
        search: str | None = None,
    ) -> HTMLResponse:
        try:
            visit = env.shop.visit(env.shop.goals(index))
        except TaskNotFound as error:
            raise HTTPException(404, str(error)) from error
        actions = do if search is None else [*do, f"search[{plain(search)}]"]
        done = [action for action in actions if visit.score is None and visit.act(action)]
        return HTMLResponse(render(visit.page, done), headers=HEADERS)

    return app
