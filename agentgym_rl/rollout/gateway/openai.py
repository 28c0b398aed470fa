"""OpenAI's form: ``POST /v1/chat/completions``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from agentgym_rl.rollout.gateway.body import flag, joined, json_of, list_of, object_of, text_of, tool
from agentgym_rl.rollout.gateway.form import Form, asked, event
from agentgym_rl.rollout.gateway.request import (
    MAX_NAME,
    ChatMessage,
    Refusal,
    Reply,
    Request,
    ToolCall,
    assistant,
    result,
)

REFUSED = ("logprobs", "top_logprobs", "functions", "function_call", "audio")
"""What a harness may not ask for."""
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def read(body: Mapping[str, Any]) -> Request:
    """The request of a body.

    Raises:
        Refusal: a value is wrong, or asks for what the gateway does not give.
    """
    if body.get("n") not in (None, 1):
        raise Refusal("n is not 1; ask once for each reply")
    for name in REFUSED:
        if body.get(name):
            raise Refusal(f"{name} is not offered; leave it out")
    if body.get("response_format") not in (None, {"type": "text"}):
        raise Refusal("response_format is not enforced; leave it out, and ask for the form in a message")
    options = body.get("stream_options")
    return asked(
        body,
        message=_messages,
        tool=_tool,
        choice=body.get("tool_choice"),
        max_tokens="max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens",
        stop="stop",
        known=("n", "response_format", "stream_options", *REFUSED),
        usage=options is not None and flag(object_of(options, "stream_options"), "include_usage"),
    )


def _tool(value: Any, where: str) -> dict[str, Any]:
    function = object_of(object_of(value, where).get("function"), f"{where}.function")
    return tool(function, "parameters", f"{where}.function")


def _messages(value: Any, where: str) -> list[ChatMessage]:
    given = object_of(value, where)
    role = given.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise Refusal(f"{where}.role should be one of {', '.join(ROLES)}")
    content = joined(given.get("content"), f"{where}.content", role)
    calls = list_of(given.get("tool_calls"), f"{where}.tool_calls")
    if calls and role != "assistant":
        raise Refusal(f"{where}.tool_calls belongs to messages of the assistant")
    if role == "tool":
        return [result(content, text_of(given.get("tool_call_id", ""), f"{where}.tool_call_id", MAX_NAME))]
    if role != "assistant":
        return [{"role": ROLES[role], "content": content}]
    message = assistant(content, [_call(each, f"{where}.tool_calls[{at}]") for at, each in enumerate(calls)])
    if given.get("reasoning_content") is not None:
        message["reasoning_content"] = text_of(given["reasoning_content"], f"{where}.reasoning_content")
    return [message]


def _call(value: Any, where: str) -> ToolCall:
    given = object_of(value, where)
    function = object_of(given.get("function"), f"{where}.function")
    name = text_of(function.get("name"), f"{where}.function.name", MAX_NAME)
    arguments = text_of(function.get("arguments", ""), f"{where}.function.arguments")
    return ToolCall(name, _object(arguments), text_of(given.get("id", ""), f"{where}.id", MAX_NAME))


def _object(arguments: str) -> dict[str, Any] | str:
    """Arguments as chat templates expect them; what is no object stays the text that it is."""
    try:
        value = json_of(arguments or "{}")
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


# writing


def write(request: Request, reply: Reply) -> dict[str, Any]:
    """The body of an answer."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content or None, "refusal": None}
    if not reply.calls:
        message["content"] = reply.content
    else:
        message["tool_calls"] = _calls(reply)
    if reply.thought:
        message["reasoning_content"] = reply.thought
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    return {**_head(request, reply, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def stream(request: Request, reply: Reply) -> Iterator[bytes]:
    """The answer as server-sent events."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event({**head, "choices": [choice]})

    head = _head(request, reply, "chat.completion.chunk")
    yield chunk({"role": "assistant", "content": ""})
    if reply.thought:
        yield chunk({"reasoning_content": reply.thought})
    if reply.content:
        yield chunk({"content": reply.content})
    for at, call in enumerate(_calls(reply)):
        yield chunk({"tool_calls": [{"index": at, **call}]})
    yield chunk({}, reply.finish)
    if request.usage:
        yield event({**head, "choices": [], "usage": _usage(reply)})
    yield b"data: [DONE]\n\n"


def refuse(refusal: Refusal) -> dict[str, Any]:
    """The body of an error."""
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    return {"error": {"message": refusal.text, "type": kind, "param": None, "code": refusal.code}}


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
        for call in reply.calls
    ]


def _head(request: Request, reply: Reply, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.id}", "object": kind, "created": int(time.time()), "model": request.model}


def _usage(reply: Reply) -> dict[str, int]:
    prompt, completion = reply.prompt_tokens, reply.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


FORM = Form(read, write, stream, refuse)
