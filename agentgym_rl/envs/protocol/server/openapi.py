"""The OpenAPI description of the environments' routes, made from their dialects."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from agentgym_rl.envs.protocol.server.operations import MAX_INDEX
from agentgym_rl.envs.protocol.server.routes import Route
from agentgym_rl.envs.protocol.wire import Dialect

SUMMARIES = {
    "/create": "Open a session",
    "/reset": "Start a task",
    "/step": "Carry out an action",
    "/close": "Close a session; false where it was closed before",
    "/observation": "What the agent saw last",
    "/available_actions": "What the agent may do now, where the world lists it",
    "/detail": "Observation, reward and end of the last step",
    "/filtered_vocab": "The words that may be guessed",
}
INTEGER = {"type": "integer", "minimum": 0, "maximum": MAX_INDEX - 1}


def openapi(app: FastAPI, table: dict[str, Route]) -> dict[str, Any]:
    """The framework's description of its pages, with the environments' routes added."""
    described = app.openapi()
    for path, route in table.items():
        described["paths"].setdefault(path, {})[route.method.lower()] = _operation(path, route)
    return described


def _operation(path: str, route: Route) -> dict[str, Any]:
    dialect = route.dialect
    errors = {"422": "malformed"}
    if route.method == "POST":
        errors |= {"413": "body too large", "415": "body is not JSON by its type"}
    if route.name == "/create":
        errors["503"] = "too many sessions"
    if dialect.key == "env_idx":
        errors |= {"404": "no such session or task", "409": "out of order: not reset, or over"}
    operation: dict[str, Any] = {
        "tags": [route.env],
        "summary": SUMMARIES[route.name],
        "operationId": f"{route.method.lower()}{path.replace('/', '_')}",
        "responses": {
            "200": {"description": "done", "content": {"application/json": {"schema": _response(route)}}},
            **{
                status: {"description": text, "content": {"application/json": {"schema": {"type": "object"}}}}
                for status, text in errors.items()
            },
        },
    }
    if route.method == "GET":
        operation["parameters"] = [{"name": dialect.key, "in": "query", "required": True, "schema": INTEGER}]
    else:
        operation["requestBody"] = {
            "required": route.name != "/create",
            "content": {"application/json": {"schema": _request(route)}},
        }
    return operation


def _request(route: Route) -> dict[str, Any]:
    dialect = route.dialect
    fields: dict[str, Any] = {} if route.name == "/create" else {dialect.key: INTEGER}
    optional: set[str] = set()
    if route.name == "/step":
        fields["action"] = {
            "type": "string",
            "description": "the whole reply of the model" if dialect.whole_response else "a command of the world",
        }
    if route.name == "/reset":
        fields[dialect.index] = {**INTEGER, "description": "index of the task"}
        optional = set() if dialect.index_missing == "error" else {dialect.index}
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required}


def _response(route: Route) -> dict[str, Any]:
    """The schema of the response; with ``id`` an error may be in its place."""
    shape = _shape(route.name, route.dialect)
    if route.dialect.key == "env_idx" or route.name == "/close":
        return shape
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    return {"anyOf": [shape, error]}


def _shape(name: str, dialect: Dialect) -> dict[str, Any]:
    text = {"type": "string"}
    match name:
        case "/create" if dialect.create_bare:
            return INTEGER
        case "/create":
            return {"type": "object", "required": [dialect.key]}
        case "/reset" if dialect.reset_pair:
            return {"type": "array", "prefixItems": [text, {"type": "null"}]}
        case "/reset" if not dialect.reset_keys:
            return text
        case "/reset":
            return {"type": "object", "required": list(dialect.reset_keys)}
        case "/step":
            return {"type": "object", "required": [dialect.text, "reward", dialect.done]}
        case "/observation" if not dialect.observation_object:
            return text
        case "/close" if dialect.done == "done":
            return {"type": "boolean"}
        case "/available_actions" | "/filtered_vocab":
            return {"type": "array", "items": text}
    return {"type": "object"}
