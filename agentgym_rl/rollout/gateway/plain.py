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
    """The messages with tools, calls and results as text. Successive messages of the user, or of the system,
    become one."""
    chat: list[Message] = []
    for message in messages:
        role, text = "user" if message["role"] == "tool" else message["role"], _text(message)
        if role != "assistant" and chat and chat[-1]["role"] == role:
            text = "\n\n".join(filter(None, (chat.pop()["content"], text)))
        chat.append({"role": role, "content": text})
    if not tools:
        return chat
    explained = EXPLAINED.format(tools="\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools))
    if chat and chat[0]["role"] == "system":
        explained = f"{chat.pop(0)['content']}\n\n{explained}"
    return [{"role": "system", "content": explained}, *chat]


def _text(message: ChatMessage) -> str:
    content: str = message["content"]
    if message["role"] == "tool":
        return f"<tool_response>\n{content}\n</tool_response>"
    return "\n".join(filter(None, (content, *_calls(message.get("tool_calls", ())))))


def _calls(calls: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for call in calls:
        yield f"<tool_call>{json.dumps(call['function'], ensure_ascii=False)}</tool_call>"
