"""A request for the next message of a conversation, and the reply, whatever API's form they have."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

ChatMessage = dict[str, Any]
"""A message as chat templates read it: ``role``, ``content`` (a text) and, of an assistant, ``tool_calls`` with their
arguments as objects and ``reasoning_content``; of a tool, ``tool_call_id``."""

MAX_NAME = 200
"""Most characters of the name of a model or tool."""


class Refusal(Exception):
    """The request is answered with an error.

    Args:
        message: for the harness: what is wrong, and what to do.
        code: names the reason for programs.
        status: of HTTP.
    """

    def __init__(self, message: str, code: str = "invalid_request", status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status

    @property
    def text(self) -> str:
        """The message with the code, which libraries of agents pass on in texts only."""
        return f"{self} ({self.code})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a harness asks."""

    messages: Sequence[ChatMessage]
    tools: Sequence[Mapping[str, Any]] = ()
    """In OpenAI's form."""
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    """The reply ends before the first of these texts."""
    stream: bool = False
    usage: bool = False
    """Whether a stream of OpenAI's form ends with the number of tokens."""
    model: str = ""
    """The name that the harness gives the model; it is repeated and not read."""
    ignored: Sequence[str] = ()
    """Parameters that have no effect: the run decides how the model samples."""

    def __post_init__(self) -> None:
        if not self.messages:
            raise Refusal("messages is empty; give at least one message")
        if self.messages[-1]["role"] == "assistant":
            raise Refusal("the last message is the assistant's; end with a message of the user or of a tool")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool of the harness."""

    name: str
    arguments: Mapping[str, Any] | str
    """A text where a client sends what is no object."""
    id: str = field(default_factory=lambda: f"call_{uuid4().hex[:24]}")

    @property
    def text(self) -> str:
        """The arguments as OpenAI's API has them."""
        return json.dumps(self.arguments, ensure_ascii=False)


Finish = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The model's message."""

    content: str
    thought: str = ""
    """What the model thought before it; shown as ``reasoning_content``, and not needed to recognize the message."""
    calls: Sequence[ToolCall] = ()
    finish: Finish = "stop"
    stopped_by: str | None = None
    """The text of :attr:`Request.stop` that ended it."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    id: str = field(default_factory=lambda: uuid4().hex)

    @property
    def message(self) -> ChatMessage:
        """The message that the harness is expected to send back."""
        return assistant(self.content, self.calls)


def assistant(content: str, calls: Sequence[ToolCall] = ()) -> ChatMessage:
    """A message of the assistant."""
    message: ChatMessage = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    return message


def result(content: str, call: str) -> ChatMessage:
    """What came of a call, given by its id."""
    return {"role": "tool", "content": content, "tool_call_id": call}


canonical = json.JSONEncoder(sort_keys=True).encode
"""The same text for equal values."""


def key_of(message: ChatMessage) -> Hashable:
    """Identifies a message. The assistant's is known by its words, without space around them, and its calls.

    Clients lose or renew the ids of calls, and strip texts; that makes no other message.
    """
    if message["role"] != "assistant":
        return message["role"], message["content"], message.get("tool_call_id")
    functions = [call["function"] for call in message.get("tool_calls", ())]
    return "assistant", message["content"].strip(), canonical(functions) if functions else None
