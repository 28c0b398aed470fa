"""OpenEnv's messages, for the server and the client; pure.

A socket (``WS /ws``) is a session. Messages in are ``{"type", "data"}`` with the types ``reset``, ``step``, ``state``,
``close`` and ``mcp``; messages out have the types ``observation``, ``state``, ``error`` and ``mcp``. OpenEnv says only
that an episode is ``done``; what ended it is in ``metadata``, as ``terminated`` and ``truncated``.
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from agentgym_rl.envs.core import EnvSpec, Observation, ProtocolError, Step
from agentgym_rl.envs.protocol.wire import finite
from agentgym_rl.envs.tables import json_object
from agentgym_rl.envs.tools import Tool

Data = Mapping[str, Any]
"""A JSON object."""

KINDS = ("reset", "step", "state", "close", "mcp")
MOST_TASKS = 1000
"""Tasks of a split that one request of the Task API gets."""


class Code(StrEnum):
    """What kind of error a message is about."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    FACTORY_ERROR = "FACTORY_ERROR"
    SESSION_ERROR = "SESSION_ERROR"


class Fault(Exception):
    """A message or request is not as the protocol wants it."""

    def __init__(self, message: str, code: Code = Code.VALIDATION_ERROR) -> None:
        super().__init__(message)
        self.code = code


# The server's side.


def read_message(raw: str) -> tuple[str, Data]:
    """Type and data of a client's message. Raises Fault: it is no such message."""
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Fault(f"the message is no JSON: {error}", Code.INVALID_JSON) from error
    if not isinstance(message, dict):
        raise Fault("a message should be an object with type and data")
    kind, data = message.get("type"), message.get("data", {})
    if kind not in KINDS:
        raise Fault(f"no message has the type {str(kind)[:80]!r}; there are {', '.join(KINDS)}", Code.UNKNOWN_TYPE)
    if not isinstance(data, dict):
        raise Fault("data should be an object")
    return str(kind), data


def write_error(code: Code, message: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code, **more}}


def write_result(step: Step, item_id: str, instruction: str | None = None, tool: str | None = None) -> dict[str, Any]:
    """The result of a reset or a step.

    Args:
        instruction: what precedes the first observation; None after a step, whose result has a reward.
        tool: name of the tool that was called; its result is then there under OpenEnv's name, too.
    """
    text, actions = step.observation.text, step.observation.actions
    metadata = {"item_id": item_id, "terminated": step.terminated, "truncated": step.truncated, "info": dict(step.info)}
    observation: dict[str, Any] = {"text": text, "actions": None if actions is None else list(actions)}
    if instruction is not None:
        observation["instruction"] = instruction
    if tool is not None:
        observation |= {"tool_name": tool, "result": text, "error": None}
    return {
        "observation": {**observation, "metadata": metadata},
        "reward": None if instruction is not None else step.reward,
        "done": step.done,
        "metadata": metadata,
    }


def write_tools(tools: Sequence[Tool], key: str = "input_schema") -> list[dict[str, Any]]:
    """The tools as OpenEnv lists them; MCP's own name for ``key`` is ``inputSchema``."""
    listed = [tool.schema["function"] for tool in tools]
    return [{"name": spec["name"], "description": spec["description"], key: spec["parameters"]} for spec in listed]


def schemas(spec: EnvSpec) -> dict[str, Any]:
    """The answer to ``GET /schema``: JSON schemas of actions, observations and states."""
    answer = json_object(Path(__file__).with_name("schemas.json"))
    properties, forms = answer["action"]["properties"], answer["action"]["oneOf"]
    if spec.tools:
        properties["tool_name"]["enum"] = [tool.name for tool in spec.tools]
    else:
        answer["action"]["oneOf"] = [form for form in forms if form["required"] != ["type"]]
        for name in ("type", "tool_name", "arguments"):
            del properties[name]
    return answer


# The client's side.


def read_text(observation: Data, field: str | None = None) -> str:
    """The text of an observation: one of its fields, or else ``text``, the result of a tool, or the whole as JSON.

    A list of chat messages is read as their contents, one below the other.

    Raises:
        ProtocolError: there is no such field.
    """
    shown = {key: value for key, value in observation.items() if key != "metadata"}
    if field is not None:
        if field not in shown:
            raise ProtocolError(f"the observation has no field {field!r}; it has {', '.join(shown) or 'none'}")
        return _plain(shown[field])
    if isinstance(shown.get("text"), str):
        return str(shown["text"])
    if "tool_name" in shown:
        error = shown.get("error")
        return f"Error: {error.get('message')}" if isinstance(error, dict) else _plain(shown.get("result"))
    return _plain(next(iter(shown.values())) if len(shown) == 1 else shown)


def _plain(value: Any) -> str:
    """A value as text."""
    if isinstance(value, str):
        return value
    blocks = value.get("content", value.get("blocks")) if isinstance(value, dict) else value
    if isinstance(blocks, list) and blocks and all(isinstance(block, dict) for block in blocks):
        parts = [block.get("text", block.get("content")) for block in blocks]
        if all(isinstance(part, str) for part in parts):
            return "\n".join(map(str, parts))
    return json.dumps(value, ensure_ascii=False)


def _texts(value: Any) -> tuple[str, ...] | None:
    """A list of texts; None for anything else."""
    listed = isinstance(value, list) and all(isinstance(part, str) for part in value)
    return tuple(value) if listed else None


def read_result(data: Data, field: str | None, total: float, full: float) -> Step:
    """The step from the data of an ``observation`` message. Its reward is in [0, 1], and so is the sum.

    The server's own reward is in ``info["raw_reward"]``. An end is ``terminated`` unless the metadata says otherwise.

    Args:
        field: see :func:`read_text`.
        total: the sum of rewards before this step.
        full: the server's reward for a solved task.

    Raises:
        ProtocolError: the message has another shape.
    """
    observation, reward, done = data.get("observation"), data.get("reward"), data.get("done", False)
    metadata = data.get("metadata") or (observation.get("metadata") if isinstance(observation, dict) else None)
    if not isinstance(observation, dict) or not isinstance(done, bool):
        raise ProtocolError(f"no result of OpenEnv: {str(dict(data))[:200]}")
    raw = 0.0 if reward is None else finite(reward)
    if raw is None:
        raise ProtocolError(f"the reward {str(reward)[:80]!r} is no number")
    facts = metadata if isinstance(metadata, dict) else {}
    truncated = done and facts.get("truncated") is True and facts.get("terminated") is not True
    actions, info = observation.get("actions"), facts.get("info")
    return Step(
        Observation(read_text(observation, field), _texts(actions)),
        min(max(raw / full, 0.0), max(1.0 - total, 0.0)),
        terminated=done and not truncated,
        truncated=truncated,
        info={"invalid": False, **(info if isinstance(info, dict) else {}), "raw_reward": raw},
    )
