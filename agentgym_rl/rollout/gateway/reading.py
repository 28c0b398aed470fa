"""From what a model sampled to its message: thought, words and calls, all read on our side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_rl.envs.bounds import cut, encodable, encodable_json
from agentgym_rl.envs.calls import TAGGED, Call, read_calls
from agentgym_rl.envs.tools import BadCall, value_of
from agentgym_rl.rollout.gateway.body import MAX_LEVELS, deeper
from agentgym_rl.rollout.gateway.request import MAX_NAME, Finish, ToolCall
from agentgym_rl.rollout.template import CLOSE, OPEN

Tools = Sequence[Mapping[str, Any]]


def parts(text: str, tools: Tools, finish: Finish, opened: bool = False) -> tuple[str, str, list[ToolCall], Finish]:
    """Thought, content, calls and the reason to stop of a response.

    A call in tags is one whatever its name, so that the harness tells the model which tools there are; any other form
    needs the name of a tool. What cannot be read as a call stays text.

    Args:
        opened: the chat template opened a thought before the response.
    """
    thought, content = _split(text, opened)
    if not tools:
        return thought, content, [], finish
    names = {tool["function"]["name"] for tool in tools}
    try:
        calls = read_calls(content)
        called = [_called(call, tools) for call in calls]
    except (BadCall, ValueError):
        return thought, content, [], finish
    if not TAGGED.search(content) and not all(call.name in names for call in calls):
        return thought, content, [], finish
    return thought, encodable(calls[0].thought), called, "tool_calls"


def before(text: str, stop: Sequence[str]) -> tuple[str, str | None]:
    """A text up to the first of some others, and which one that is; all of it and None where none occurs."""
    found = [(at, each) for each in stop if (at := text.find(each)) >= 0]
    at, first = min(found, default=(len(text), None))
    return text[:at], first


def _split(text: str, opened: bool) -> tuple[str, str]:
    """Thought and content; a thought that was cut before its end is no content."""
    head, closed, content = text.rpartition(CLOSE)
    if closed:
        return head.strip().removeprefix(OPEN).strip(), content.strip()
    if opened or text.lstrip().startswith(OPEN):
        return text.strip().removeprefix(OPEN).strip(), ""
    return "", text


def _called(call: Call, tools: Tools) -> ToolCall:
    """A call as the harness gets it, and may send it back.

    Raises:
        ValueError: no request may have such a call.
    """
    arguments = dict(call.arguments)
    if call.texts:
        functions = [tool["function"] for tool in tools if tool["function"]["name"] == call.name]
        parameters: Mapping[str, Any] = functions[0]["parameters"] if functions else {}
        arguments = {name: value_of(text, _kind(parameters, name)) for name, text in arguments.items()}
    if not call.name.strip() or len(call.name) > MAX_NAME or deeper(arguments, MAX_LEVELS // 2):
        raise ValueError(f"{cut(call.name, 60)!r} is no call")
    json.dumps(arguments, allow_nan=False)  # refuses numbers that JSON does not have
    return ToolCall(encodable(call.name), encodable_json(arguments))


def _kind(parameters: Mapping[str, Any], name: str) -> Any:
    """The type that a JSON schema of a harness, which may be of any shape, gives an argument."""
    match parameters:
        case {"properties": {**properties}} if isinstance(schema := properties.get(name), dict):
            return schema.get("type")
    return None
