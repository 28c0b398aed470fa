"""Anthropic's form: ``POST /v1/messages``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentgym_rl.rollout.gateway.body import flag, joined, list_of, object_of, text_of, tool
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

STOP = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
THOUGHTS = ("thinking", "redacted_thinking")


def read(body: Mapping[str, Any]) -> Request:
    """The request of a body.

    Raises:
        Refusal: a value is wrong, or asks for what the gateway does not give.
    """
    config = body.get("output_config")
    if body.get("output_format") is not None or (isinstance(config, dict) and config.get("format") is not None):
        raise Refusal("a format of the output is not enforced; leave it out, and ask for it in a message")
    system, choice = joined(body.get("system"), "system", "system"), body.get("tool_choice")
    return asked(
        body,
        message=_messages,
        tool=_tool,
        choice=choice.get("type") if isinstance(choice, dict) else None,
        max_tokens="max_tokens",
        stop="stop_sequences",
        known=("system",),
        opening=[{"role": "system", "content": system}] if system else [],
    )


def _tool(value: Any, where: str) -> dict[str, Any]:
    given = object_of(value, where)
    if given.get("type") not in (None, "custom"):
        raise Refusal(f"{where} is a tool of Anthropic's own servers; offer tools with an input_schema")
    return tool(given, "input_schema", where)


def _messages(value: Any, where: str) -> list[ChatMessage]:
    given = object_of(value, where)
    role, content = given.get("role"), given.get("content")
    if role not in ("user", "assistant"):
        raise Refusal(f"{where}.role should be user or assistant")
    blocks = [content] if isinstance(content, str) else list_of(content, f"{where}.content")
    kinds = [block.get("type") if isinstance(block, dict) else "text" for block in blocks]
    named = [
        (kind, block, f"{where}.content[{at}]") for at, (kind, block) in enumerate(zip(kinds, blocks, strict=True))
    ]
    if role == "assistant":
        texts = [block for kind, block in zip(kinds, blocks, strict=True) if kind not in ("tool_use", *THOUGHTS)]
        calls = [_call(block, place) for kind, block, place in named if kind == "tool_use"]
        return [assistant(joined(texts, f"{where}.content", role), calls)]
    results = [_result(block, place) for kind, block, place in named if kind == "tool_result"]
    texts = [block for kind, block in zip(kinds, blocks, strict=True) if kind != "tool_result"]
    said: list[ChatMessage] = [{"role": "user", "content": joined(texts, f"{where}.content", role)}]
    return results + said if texts or not results else results


def _call(block: Mapping[str, Any], where: str) -> ToolCall:
    name = text_of(block.get("name"), f"{where}.name", MAX_NAME)
    arguments = object_of(block.get("input", {}), f"{where}.input")
    return ToolCall(name, arguments, text_of(block.get("id", ""), f"{where}.id", MAX_NAME))


def _result(block: Mapping[str, Any], where: str) -> ChatMessage:
    call = text_of(block.get("tool_use_id", ""), f"{where}.tool_use_id", MAX_NAME)
    said = joined(block.get("content"), f"{where}.content", "tool")
    return result(f"Error: {said}" if flag(block, "is_error") else said, call)


# writing


def write(request: Request, reply: Reply) -> dict[str, Any]:
    """The body of an answer."""
    return {
        **_head(request, reply),
        "content": _blocks(reply),
        **_stop(reply),
        "usage": {"input_tokens": reply.prompt_tokens, "output_tokens": reply.completion_tokens},
    }


def stream(request: Request, reply: Reply) -> Iterator[bytes]:
    """The answer as server-sent events."""
    usage = {"input_tokens": reply.prompt_tokens, "output_tokens": 0}
    empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield _event("message_start", message={**_head(request, reply), **empty})
    for at, block in enumerate(_blocks(reply)):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            written = json.dumps(block["input"], ensure_ascii=False)
            start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": written}
        yield _event("content_block_start", index=at, content_block=start)
        yield _event("content_block_delta", index=at, delta=delta)
        yield _event("content_block_stop", index=at)
    yield _event("message_delta", delta=_stop(reply), usage={"output_tokens": reply.completion_tokens})
    yield _event("message_stop")


def refuse(refusal: Refusal) -> dict[str, Any]:
    """The body of an error."""
    kinds = {401: "authentication_error", 404: "not_found_error", 413: "request_too_large"}
    kind = kinds.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": refusal.text}}


def _head(request: Request, reply: Reply) -> dict[str, Any]:
    return {"id": f"msg_{reply.id}", "type": "message", "role": "assistant", "model": request.model}


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    said = [{"type": "text", "text": reply.content}] if reply.content or not reply.calls else []
    calls = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in reply.calls]
    return [*said, *calls]


def _stop(reply: Reply) -> dict[str, str | None]:
    if reply.stopped_by is None or reply.calls:  # a client runs calls only where they are the reason
        return {"stop_reason": STOP[reply.finish], "stop_sequence": None}
    return {"stop_reason": "stop_sequence", "stop_sequence": reply.stopped_by}


def _event(kind: str, **data: Any) -> bytes:
    return event({"type": kind, **data})


FORM = Form(read, write, stream, refuse)
