"""A request for the next message of a conversation, and the reply, whatever API's form they have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal
from uuid import uuid4

from agentgym_rl.envs.bounds import cut, encodable

ChatMessage = dict[str, Any]
"""A message as chat templates read it: ``role``, ``content`` (a text) and, of an assistant, ``tool_calls`` with their
arguments as objects and ``reasoning_content``; of a tool, ``tool_call_id``."""

MAX_LEVELS = 64
"""Most levels of a body; templates and encoders recurse."""
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
    def told(self) -> str:
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
    arguments: Mapping[str, Any]
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


_canonical = json.JSONEncoder(sort_keys=True).encode
"""The same text for equal values."""


def key_of(message: ChatMessage) -> bytes:
    """Identifies a message. The assistant's is known by its words, without space around them, and its calls.

    Clients lose or renew the ids of calls, and strip texts; that makes no other message.
    """
    known: Any = message
    if message["role"] == "assistant":
        functions = [call["function"] for call in message.get("tool_calls", ())]
        known = ["assistant", message["content"].strip(), functions]
    return _canonical(known).encode()


def digests(messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """A digest of the tools and the conversation up to each message; equal ones have equal digests."""
    digest = sha256(_canonical(tools).encode()).digest()
    for message in messages:
        digest = following(digest, key_of(message))
        yield digest


def following(conversation: bytes, message: bytes) -> bytes:
    """The digest of a conversation, given by its own, with a further message, given by its key."""
    return sha256(conversation + message).digest()


# reading


def body_of(raw: bytes) -> dict[str, Any]:
    """The JSON object of a body, all of whose texts can be encoded.

    Raises:
        Refusal: it is none.
    """
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refusal("the body should be a JSON object")
    if deeper(body, MAX_LEVELS):
        raise Refusal(f"the body has more than {MAX_LEVELS} levels")
    try:
        return plain_json(body)
    except ValueError as error:
        raise Refusal(f"the body is not JSON: {error}") from error


def plain_json(value: dict[str, Any]) -> dict[str, Any]:
    """An object all of whose texts can be encoded.

    Raises:
        ValueError: it has numbers that JSON does not have.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    whole = encodable(text)
    return value if whole is text else dict(json.loads(whole))


def deeper(value: Any, levels: int) -> bool:
    """Whether a value of JSON has more than so many levels of lists and objects."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inner is not None and (levels == 0 or any(deeper(each, levels - 1) for each in inner))


def text_of(value: Any, where: str, most: int | None = None) -> str:
    """A text.

    Raises:
        Refusal: the value is another, or longer than ``most``.
    """
    if not isinstance(value, str):
        raise Refusal(f"{where} is {_shown(value)}; give a text")
    if most is not None and len(value) > most:
        raise Refusal(f"{where} has {len(value)} characters; at most {most} are allowed")
    return value


def list_of(value: Any, where: str) -> list[Any]:
    """A list; None is an empty one.

    Raises:
        Refusal: the value is another.
    """
    if value is not None and not isinstance(value, list):
        raise Refusal(f"{where} is {_shown(value)}; give a list")
    return value or []


def object_of(value: Any, where: str) -> dict[str, Any]:
    """An object.

    Raises:
        Refusal: the value is another.
    """
    if not isinstance(value, dict):
        raise Refusal(f"{where} is {_shown(value)}; give an object")
    return value


def flag(body: Mapping[str, Any], name: str) -> bool:
    """A parameter that is true or false; False where it is missing.

    Raises:
        Refusal: it is another value.
    """
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise Refusal(f"{name} is {_shown(value)}; give true or false")
    return bool(value)


def count(body: Mapping[str, Any], name: str) -> int | None:
    """A parameter that is a number of at least 1; None where it is missing.

    Raises:
        Refusal: it is another value.
    """
    value = body.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise Refusal(f"{name} is {_shown(value)}; give a whole number of at least 1")
    return value


def stops(value: Any, where: str) -> list[str]:
    """The texts that end a reply: one, a list, or none.

    Raises:
        Refusal: it is another value, or one of them is empty.
    """
    texts = [text_of(each, where) for each in ([value] if isinstance(value, str) else list_of(value, where))]
    if "" in texts:
        raise Refusal(f"{where} has an empty text, which would end every reply")
    return texts


def tool(given: Mapping[str, Any], schema: str, where: str) -> dict[str, Any]:
    """A tool in OpenAI's form.

    Args:
        given: its name, description and, under ``schema``, the JSON schema of its arguments.

    Raises:
        Refusal: a value is of another kind.
    """
    name, description, parameters = given.get("name"), given.get("description"), given.get(schema)
    if not text_of(name, f"{where}.name", MAX_NAME).strip():
        raise Refusal(f"{where}.name is empty; give each tool a name")
    function = {
        "name": name,
        "description": "" if description is None else text_of(description, f"{where}.description"),
        "parameters": {"type": "object"} if parameters is None else object_of(parameters, f"{where}.{schema}"),
    }
    return {"type": "function", "function": function}


def joined(content: Any, where: str) -> str:
    """The text of a content: a text, none, or parts, all of which must be texts.

    Raises:
        Refusal: a part is no text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(_part(part, f"{where}[{at}]") for at, part in enumerate(list_of(content, where)))


def _part(part: Any, where: str) -> str:
    match part:
        case str():
            return part
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return text
        case {"type": str(kind)} if kind != "text":
            raise Refusal(f"{where} is of type {cut(kind, 40)!r}; the model reads texts only")
    raise Refusal(f'{where} is {_shown(part)}; give {{"type": "text", "text": "..."}}')


def _shown(value: Any) -> str:
    return "missing" if value is None else cut(json.dumps(value, ensure_ascii=False), 60)
