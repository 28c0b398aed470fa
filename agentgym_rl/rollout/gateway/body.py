"""The body of a request: a JSON object whose values are read one by one, or refused in words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from agentgym_rl.envs.bounds import cut, encodable_json
from agentgym_rl.rollout.gateway.request import MAX_NAME, Refusal

MAX_LEVELS = 64
"""Most levels of a body; templates and encoders recurse."""


def body_of(raw: bytes) -> dict[str, Any]:
    """The JSON object of a body, all of whose texts can be encoded.

    Raises:
        Refusal: it is none.
    """
    try:
        body = json_of(raw.decode())
    except ValueError as error:
        raise Refusal(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refusal("the body should be a JSON object")
    return body


def json_of(text: str) -> Any:
    """The value that is written as JSON. All of its texts can be encoded.

    Raises:
        ValueError: the text is no JSON, has a number that is none, or more than :data:`MAX_LEVELS` levels.
    """
    try:
        value = json.loads(text, parse_float=_number, parse_constant=_number)
    except RecursionError as error:
        raise ValueError(f"it has more than {MAX_LEVELS} levels") from error
    if deeper(value, MAX_LEVELS):
        raise ValueError(f"it has more than {MAX_LEVELS} levels")
    # a text that was encoded has no halves of surrogate pairs, so that they can only come from escapes
    return encodable_json(value) if "\\ud" in text.lower() else value


def deeper(value: Any, levels: int) -> bool:
    """Whether a value of JSON has more than so many levels of lists and objects."""
    level = [value]
    for _ in range(levels + 1):
        level = [each for each in level if isinstance(each, (dict, list))]
        if not level:
            return False
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return True


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


def joined(content: Any, where: str, role: str) -> str:
    """The text of a content: a text, none, or parts, all of which must be texts.

    Parts begin lines of their own; only the assistant's make up one text, as a client may have cut it anywhere.

    Raises:
        Refusal: a part is no text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    parts = [_part(part, f"{where}[{at}]") for at, part in enumerate(list_of(content, where))]
    return ("" if role == "assistant" else "\n").join(parts)


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


def _number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text:.20} is no number")
    return number
