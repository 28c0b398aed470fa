"""The OpenAPI description of the environments' routes, made from their dialects."""

from typing import Any

from fastapi import FastAPI

from agentgym_rl.envs.protocol.server.operations import MAX_INDEX, NUMBERING
from agentgym_rl.envs.protocol.server.routes import Route
from agentgym_rl.envs.protocol.wire import Dialect

INTEGER = {"type": "integer", "minimum": 0, "maximum": MAX_INDEX - 1}
TEXT = {"type": "string"}


def openapi(app: FastAPI, table: dict[str, Route]) -> dict[str, Any]:
    """The framework's description of its pages, with the environments' routes added."""
    described = app.openapi()
    for path, route in table.items():
        described["paths"].setdefault(path, {})[route.method.lower()] = _operation(path, route)
    return described


def _operation(path: str, route: Route) -> dict[str, Any]:
    dialect = route.dialect
    responses = {"200": _content("done", _response(route.name, dialect)), "422": _content("malformed")}
    if route.method == "POST":
        responses |= {"413": _content("body too large"), "415": _content("body is not JSON by its type")}
    if route.name == "/create":
        responses["503"] = _content("too many sessions")
    if dialect.key == "env_idx":
        responses |= {"404": _content("no such session or task"), "409": _content("out of order: not reset, or over")}
    request: dict[str, Any]
    if route.name == NUMBERING:
        request = {}
    elif route.method == "GET":
        request = {"parameters": [{"name": dialect.key, "in": "query", "required": True, "schema": INTEGER}]}
    else:
        body = {"required": route.name != "/create", **_content("", _request(route.name, dialect))}
        request = {"requestBody": body}
    return {
        "tags": [route.env],
        "summary": (route.run.__doc__ or "").removesuffix("."),
        "operationId": f"{route.method.lower()}{path.replace('/', '_')}",
        "responses": responses,
        **request,
    }


def _content(description: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema or {"type": "object"}}}}


def _request(name: str, dialect: Dialect) -> dict[str, Any]:
    fields: dict[str, Any] = {} if name == "/create" else {dialect.key: INTEGER}
    required = list(fields)
    if name == "/step":
        what = "the whole response of the model" if dialect.whole_response else "a command of the environment"
        fields["action"] = {**TEXT, "description": what}
        required.append("action")
    if name == "/reset":
        fields[dialect.index] = {**INTEGER, "description": "index of the task"}
        required += [dialect.index] if dialect.index_missing == "error" else []
    return {"type": "object", "properties": fields, "required": required}


def _response(name: str, dialect: Dialect) -> dict[str, Any]:
    """The schema of the response; with ``id`` an error may be in its place."""
    shape = _shape(name, dialect)
    if dialect.key == "env_idx" or name == "/close":
        return shape
    return {"anyOf": [shape, {"type": "object", "properties": {"error": TEXT}, "required": ["error"]}]}


def _shape(name: str, dialect: Dialect) -> dict[str, Any]:
    match name:
        case "/create" if dialect.create_bare:
            return INTEGER
        case "/create":
            return {"type": "object", "required": [dialect.key]}
        case "/reset" if dialect.reset_pair:
            return {"type": "array", "prefixItems": [TEXT, {"type": "null"}]}
        case "/reset" if not dialect.reset_keys:
            return TEXT
        case "/reset":
            return {"type": "object", "required": list(dialect.reset_keys)}
        case "/step":
            return {"type": "object", "required": [dialect.text, "reward", dialect.done]}
        case "/observation" if not dialect.observation_object:
            return TEXT
        case "/close" if dialect.done == "done":
            return {"type": "boolean"}
        case "/available_actions" | "/filtered_vocab":
            return {"type": "array", "items": TEXT}
    return {"type": "object"}
