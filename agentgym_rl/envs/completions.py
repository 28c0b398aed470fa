"""What an answer of an OpenAI-compatible API means, decided here for all that ask one.

The servers behind this interface agree on replies and hardly on anything else: an error may come with any status, 200
included, in any shape, and in words of their own. Nothing in this module raises.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

from agentgym_rl.envs.bounds import cut, encodable
from agentgym_rl.envs.tables import load

OPTIONAL = ("max_completion_tokens", "seed")
"""Parameters of a request that some servers do not know; they know ``max_tokens`` in place of the first."""
MAX_SAID_CHARACTERS = 300
"""Most characters that are kept of what an API says."""
_NAME = 40
"""Most characters of a reason to stop."""
_SEARCHED = 20_000
"""Most characters of an error that are searched."""
_MOST_TOKENS = 2**53
"""A larger count is none."""


class Meaning(Enum):
    """What an answer means for the request."""

    REPLY = auto()
    """The model has replied."""
    TOO_LONG = auto()
    """The conversation, or its next reply, does not fit into the model's context."""
    FILTERED = auto()
    """A content filter stopped the request or withheld the whole reply."""
    REFUSED = auto()
    """The API refuses the request for another reason."""
    MALFORMED = auto()
    """It is neither a reply nor an error."""
    NO_ACCESS = auto()
    """The API does not know the key, the model or the path."""
    NO_CREDIT = auto()
    """There is nothing left to pay with."""
    FAULT = auto()
    """A rate limit or a fault of the server; the same request may succeed later."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read."""

    meaning: Meaning
    text: str
    """The reply, or in one line what the API says instead."""
    finish_reason: str | None = None
    """Why the model stopped, in the API's words: ``stop``, ``length``, ...; ``refusal`` where it says so."""
    prompt_tokens: int = 0
    """0 where the API does not say."""
    completion_tokens: int = 0
    unknown: frozenset[str] = frozenset()
    """Those of :data:`OPTIONAL` that a refusal names."""


_SAID = load(Path(__file__).with_suffix(".toml"), dict[str, tuple[str, ...]])
_TOO_LONG, _NO_CREDIT, _FILTERED = (re.compile("|".join(_SAID[what])) for what in ("too_long", "no_credit", "filtered"))
_WITHHELD = ("content_filter", "refusal", "safety", "prohibited_content", "recitation", "blocklist")
"""Reasons to stop that explain an empty reply."""


def read(status: int, body: bytes) -> Answer:
    """The meaning of an answer's HTTP status and body."""
    data, text = _parsed(body)
    error = _error(data)
    if status < 400 and error is None:
        return _reply(data) or Answer(Meaning.MALFORMED, _line(text), None, *_tokens(data))
    if status < 400:
        status = _status(error)
    searched = text[:_SEARCHED]
    meaning = _meaning(status, searched.lower().replace("_", " "))
    named = [name for name in OPTIONAL if re.search(rf"\b{name}\b", searched)]
    unknown = frozenset(named if status in (400, 422) and meaning is Meaning.REFUSED else ())
    return Answer(meaning, f"{status}: {_message(data if error is None else error, text)}", unknown=unknown)


def _parsed(body: bytes) -> tuple[Any, str]:
    """A body as JSON and as a text, without escapes where it is JSON."""
    try:
        data = json.loads(body)
        return data, json.dumps(data, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None, body.decode("utf-8", "replace")


def _meaning(status: int, text: str) -> Meaning:
    """What an error means, by its status and its codes and words, in small letters and without underscores."""
    if status == 413 or _TOO_LONG.search(text):
        return Meaning.TOO_LONG
    if status == 402 or _NO_CREDIT.search(text):
        return Meaning.NO_CREDIT
    if status in (408, 409, 425, 429) or status >= 500:
        return Meaning.FAULT
    if status in (401, 404):
        return Meaning.NO_ACCESS
    return Meaning.FILTERED if _FILTERED.search(text) else Meaning.REFUSED


def _error(data: Any) -> Any:
    """The error in a body; None where there is none."""
    match data:
        case [dict(first), *_]:  # Gemini's
            return _error(first)
        case {"object": "error"} | {"type": "error", "error": None}:
            return data
        case {"error": error} if error:
            return error
        case {"choices": [{"error": error}, *_]} if error:  # OpenRouter's
            return error
    return None


def _status(error: Any) -> int:
    """The status that belongs to an error which came with another."""
    code = str(error.get("code")) if isinstance(error, dict) else ""
    return int(code) if re.fullmatch(r"[45]\d\d", code, re.ASCII) else 400


def _message(error: Any, text: str) -> str:
    """What an error says: its message where it has one, else all of it."""
    for name in ("message", "detail", "error"):
        if isinstance(error, dict) and isinstance(error.get(name), str) and error[name].strip():
            return _line(error[name])
    return _line(error if isinstance(error, str) else text)


def _line(text: str) -> str:
    return encodable(cut(" ".join(text[: 10 * MAX_SAID_CHARACTERS].split()), MAX_SAID_CHARACTERS)) or "nothing"


def _reply(data: Any) -> Answer | None:
    """The reply in a body; None where there is none."""
    match data:
        case {"choices": [{"message": dict(message)} as choice, *_]}:
            text, refusal = _content(message.get("content")), message.get("refusal")
        case _:
            return None
    if text is None:
        return None
    text = "\n".join(filter(None, (text, _calls(message))))
    finish = choice.get("finish_reason")
    finish = encodable(cut(finish, _NAME)) if isinstance(finish, str) else None
    if isinstance(refusal, str) and refusal.strip():
        text, finish = text if text.strip() else refusal, "refusal"
    if not text.strip() and finish is not None and finish.lower() in _WITHHELD:
        return Answer(Meaning.FILTERED, f"the reply is empty, with finish_reason {finish!r}", finish, *_tokens(data))
    return Answer(Meaning.REPLY, encodable(text), finish, *_tokens(data))


def _content(content: Any) -> str | None:
    """The text of a message's content, of its parts those that are no thinking; None where it is of another kind."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "".join(_part(part) for part in content)
    return None


def _calls(message: dict[str, Any]) -> str:
    """The functions that a message calls, as text that :func:`agentgym_rl.envs.calls.read_call` reads."""
    calls = message.get("tool_calls") or message.get("function_call")
    return json.dumps({"tool_calls": calls}, ensure_ascii=False) if isinstance(calls, list | dict) and calls else ""


def _part(part: Any) -> str:
    match part:
        case str():
            return part
        case {"type": "refusal", "refusal": str(text)} | {"type": "text" | "output_text", "text": str(text)}:
            return text
    return ""


def _tokens(data: Any) -> tuple[int, int]:
    """Tokens of prompt and completion; 0 where the body does not tell a number of them."""
    match data:
        case {"usage": {**usage}}:
            return _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return 0, 0


def _count(value: Any) -> int:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if number and 0 <= value < _MOST_TOKENS else 0
