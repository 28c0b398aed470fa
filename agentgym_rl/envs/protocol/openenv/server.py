"""The ASGI application that speaks OpenEnv's protocol: ``WS /ws``, HTTP, and the Task API."""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, FastAPI, Request, Response, WebSocket
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator
from starlette.websockets import WebSocketDisconnect

from agentgym_rl.envs.core import EnvError, TaskNotFound
from agentgym_rl.envs.protocol.openenv import wire
from agentgym_rl.envs.protocol.openenv.games import Game, Served, State, failure, success
from agentgym_rl.envs.protocol.openenv.wire import Code, Fault
from agentgym_rl.envs.protocol.server.app import frame
from agentgym_rl.envs.protocol.server.metrics import Metrics
from agentgym_rl.envs.protocol.server.routes import STATUS, dumps
from agentgym_rl.envs.protocol.server.sessions import Full, Sessions
from agentgym_rl.envs.protocol.server.settings import Settings

ABOUT = "Text environments in OpenEnv's protocol: WS /ws is a session; reset it to a task, step until done."


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    """A body of which every part can be sent back. Raises ValueError: it is another."""
    try:
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError("it holds half a surrogate pair, a number that is none, or is nested too deeply") from error
    return data


Json = Annotated[dict[str, Any], AfterValidator(_plain), Body(default_factory=dict)]


def create_openenv_app(
    settings: Settings, worker: int = 0, folder: Path | None = None, clock: Callable[[], float] = time.monotonic
) -> FastAPI:
    """The ASGI application of one worker; arguments and errors are those of
    :func:`agentgym_rl.envs.protocol.server.create_app`.

    A single environment is at ``/`` and ``/<name>``, several are at ``/<name>``. A session stays with the worker that
    accepted its socket.
    """
    metrics = Metrics()
    workers = 1 if folder is None else settings.workers
    sessions = Sessions(settings.max_sessions, settings.session_ttl, worker, workers, clock)
    app = frame(settings, sessions, metrics, ABOUT, health="healthy")
    all_served = [
        Served(name, options, sessions, metrics, [panel for panel in settings.panels if panel.env == name])
        for name, options in settings.envs.items()
    ]
    for served in all_served:
        metrics.expired.labels(served.name)  # so that the page lists it at 0
        for prefix in ([""] if len(all_served) == 1 else []) + [f"/{served.name}"]:
            app.include_router(_session_routes(served, workers), prefix=prefix)
            app.include_router(_task_routes([served]), prefix=prefix)
    if len(all_served) > 1:
        app.include_router(_task_routes(all_served))
    for kind in (Fault, Full, EnvError):
        app.exception_handler(kind)(_refuse)
    app.exception_handler(RequestValidationError)(_refuse_body)
    return app


async def _refuse(_: Request, error: Exception) -> Response:
    status = next((code for kind, code in {Fault: 422, Full: 503, **STATUS}.items() if isinstance(error, kind)), 500)
    named = {"type": type(error).__name__} if isinstance(error, EnvError) else {}
    return _answer(status, {"detail": str(error), **named})


async def _refuse_body(_: Request, error: RequestValidationError) -> Response:
    """As FastAPI does, but without the input, which may be what no answer can hold."""
    faults = [{key: fault[key] for key in ("type", "loc", "msg")} for fault in error.errors()]
    return _answer(422, {"detail": faults})


def _answer(status: int, content: dict[str, Any]) -> Response:
    return Response(dumps(content), status, media_type="application/json")


def _session_routes(served: Served, workers: int) -> APIRouter:
    """Sessions of an environment, and pages about it; sessions over HTTP only where there is one worker."""
    router = APIRouter(tags=[served.name])
    games: dict[str, Game] = {}
    """Sessions that were opened over HTTP (``openenv/session/create``), by id."""

    @router.websocket("/ws")
    async def ws(socket: WebSocket) -> None:
        await socket.accept()
        try:
            session_id = socket.query_params.get("session_id")
            game = served.open() if session_id is None else _find(games, session_id)
        except Full as error:
            await _say(socket, wire.write_error(Code.CAPACITY_REACHED, str(error)))
        except Fault as fault:
            await _say(socket, wire.write_error(Code.SESSION_ERROR, str(fault)))
        except Exception as error:  # noqa: BLE001 - the constructor of an environment, which may raise anything
            await _say(socket, wire.write_error(Code.FACTORY_ERROR, str(error)))
        else:
            try:
                await _converse(socket, game)
            finally:
                if session_id is None:
                    await game.close()
            return
        await socket.close()

    @router.post("/reset", summary="The first observation of a task, in a session that is closed at once")
    async def reset(data: Json) -> dict[str, Any]:
        return await _once(served, lambda game: game.reset(data))

    @router.post("/step", summary="One action in a fresh session, after a reset to the task that the request names")
    async def step(data: Json) -> dict[str, Any]:
        if not isinstance(action := data.get("action"), dict):
            raise Fault("action should be an object")

        async def both(game: Game) -> dict[str, Any]:
            await game.reset(data)
            return await game.step(action)

        return await _once(served, both)

    @router.get("/state", summary="The state of a fresh session")
    async def state() -> dict[str, Any]:
        return asdict(State())

    @router.get("/metadata", summary="Name and description")
    async def metadata() -> dict[str, Any]:
        spec = served.spec
        return {
            "name": served.name,
            "description": spec.instruction(served.env.style),
            "version": version("agentgym-rl"),
            "author": None,
            "documentation_url": None,
            "readme_content": None,
        }

    @router.get("/schema", summary="JSON schemas of actions, observations and states")
    async def schema() -> dict[str, Any]:
        return wire.schemas(served.spec)

    @router.post("/mcp", summary="JSON-RPC of MCP: the tools, and sessions over HTTP")
    async def mcp(data: Json) -> dict[str, Any]:
        return await _call(served, games, workers, data)

    return router


async def _call(served: Served, games: dict[str, Game], workers: int, data: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request of JSON-RPC."""
    method, number, params = data.get("method"), data.get("id"), data.get("params") or {}
    if data.get("jsonrpc") != "2.0" or not isinstance(method, str) or not isinstance(params, dict):
        return failure(number, -32600, "this is no request of JSON-RPC 2.0")
    if method == "openenv/session/create":
        if workers > 1:
            return failure(number, -32000, f"a server with {workers} workers has no such sessions; open WS /ws")
        for session_id in [each for each, game in games.items() if game.session.closed]:
            del games[session_id]  # it expired
        game = served.open()
        games[str(game.session.id)] = game
        return success(number, {"session_id": str(game.session.id)})
    if method == "tools/list":
        return success(number, {"tools": wire.write_tools(served.spec.tools, "inputSchema")})
    try:
        game = _find(games, params.get("session_id"))
    except Fault as fault:
        return failure(number, -32602, str(fault))
    if method == "openenv/session/close":
        del games[str(game.session.id)]
        await game.close()
        return success(number, {"closed": True})
    reply = await game.answer(json.dumps({"type": "mcp", "data": data})) or {}
    result: dict[str, Any] = reply["data"]
    return result if reply["type"] == "mcp" else failure(number, -32603, result["message"])


def _task_routes(all_served: list[Served]) -> APIRouter:
    """The Task API: the splits of environments and their tasks."""
    router = APIRouter(tags=["Task API"])

    @router.get("/list_environments", summary="Names of the environments")
    async def list_environments() -> list[str]:
        return [served.name for served in all_served]

    for served in all_served:
        _add_tasks(router, served)
    return router


def _add_tasks(router: APIRouter, served: Served) -> None:
    name = served.name

    @router.get(f"/{name}/splits", summary=f"Splits of {name}: names, sizes and digests")
    async def splits() -> list[dict[str, Any]]:
        return await served.splits()

    @router.post(f"/{name}/num_tasks", summary=f"Number of tasks in a split of {name}")
    async def num_tasks(data: Json) -> dict[str, int]:
        return {"num_tasks": served.count(data.get("split"))}

    @router.post(f"/{name}/tasks", summary=f"Tasks of a split of {name}, at most {wire.MOST_TASKS}")
    async def tasks(data: Json) -> dict[str, Any]:
        return {"tasks": await served.tasks(data.get("split")), "env_name": name}

    @router.post(f"/{name}/task_range", summary=f"Tasks of {name} from start to before stop, at most {wire.MOST_TASKS}")
    async def task_range(data: Json) -> dict[str, Any]:
        return {"tasks": await served.tasks(data.get("split"), data.get("start"), data.get("stop"))}

    @router.post(f"/{name}/task", summary=f"One task of {name}", response_model=None)
    async def task(data: Json) -> dict[str, Any] | Response:
        served.count(data.get("split"))  # an unknown split is another error than a wrong index
        try:
            return {"task": served.describe(data.get("split"), data.get("index"))}
        except (Fault, TaskNotFound) as error:
            return _answer(400, {"detail": f"Invalid task index: {error}"})


async def _once(served: Served, play: Callable[[Game], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """The result of a call in a session that is closed afterwards."""
    game = served.open()
    try:
        return await play(game)
    finally:
        await game.close()


async def _converse(socket: WebSocket, game: Game) -> None:
    """Answer messages until the client closes the session or the socket."""
    try:
        while (reply := await game.answer(await _hear(socket))) is not None:
            await _say(socket, reply)
            if reply["type"] == "error" and reply["data"]["code"] == Code.SESSION_ERROR:
                break
        await socket.close()
    except WebSocketDisconnect:
        return


async def _hear(socket: WebSocket) -> str:
    """The next message; one of bytes as the text that it is. Raises WebSocketDisconnect: the client is gone."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect
    text = message.get("text")
    return str(text) if text is not None else bytes(message["bytes"]).decode(errors="replace")


async def _say(socket: WebSocket, message: dict[str, Any]) -> None:
    await socket.send_text(dumps(message).decode())


def _find(games: dict[str, Game], session_id: object) -> Game:
    """A session that was opened over HTTP. Raises Fault: there is none of that id."""
    game = games.get(str(session_id))
    if game is None or game.session.closed:
        games.pop(str(session_id), None)
        raise Fault(f"there is no session {str(session_id)[:80]!r}; a socket (WS /ws) opens its own")
    return game
