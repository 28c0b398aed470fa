"""Tools as text, for models that are given plain messages: those whose chat template knows no tools, and APIs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentgym_rl.envs.core import Message
from agentgym_rl.rollout.gateway.request import ChatMessage

EXPLAINED = (
    "You may call these tools:\n{tools}\nTo call one, answer with its name and arguments within tags:\n"
    '<tool_call>{{"name": "...", "arguments": {{...}}}}</tool_call>\nThe result follows within <tool_response> tags.'
)


def plain(messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]] = ()) -> list[Message]:
    """The messages with tools, calls and results as text. Successive messages of the user become one."""
    told: list[Message] = []
    if tools:
        listed = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
        told.append({"role": "system", "content": EXPLAINED.format(tools=listed)})
    for message in messages:
        _add(told, "user" if message["role"] == "tool" else message["role"], _text(message))
    return told


def _add(told: list[Message], role: str, text: str) -> None:
    if role in ("system", "user") and told and told[-1]["role"] == role:
        both = (text, told[-1]["content"]) if role == "system" else (told[-1]["content"], text)
        told[-1] = {"role": role, "content": "\n\n".join(filter(None, both))}
        return
    told.append({"role": role, "content": text})


def _text(message: ChatMessage) -> str:
    content: str = message["content"]
    if message["role"] == "tool":
        return f"<tool_response>\n{content}\n</tool_response>"
    return "\n".join(filter(None, (content, *_calls(message.get("tool_calls", ())))))


def _calls(calls: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for call in calls:
        yield f"<tool_call>{json.dumps(call['function'], ensure_ascii=False)}</tool_call>"
