"""A function call in a response, as models write it.

These forms are read; arguments may be an object or its JSON text:

* AgentGym's ``{"thought", "function_name", "arguments"}``, which is also the one that is written;
* OpenAI's ``{"name", "arguments"}``, also inside ``{"function": ...}`` and ``{"tool_calls": [...]}``;
* Llama 3's ``{"name", "parameters"}`` and ``<function=NAME>{...}</function>``;
* Qwen's ``<tool_call>...</tool_call>``, around one of these objects or around
  ``<function=NAME><parameter=KEY>VALUE</parameter>...</function>``.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentgym_rl.envs.tools import BadCall

FORM = 'expected one JSON object with "function_name" and "arguments".'
TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_NAME = r"([^<>\s]{1,200})"
_FUNCTION = re.compile(rf"<function={_NAME}>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(rf"<parameter={_NAME}>\n?(.*?)\n?(?:</parameter>|\Z)", re.DOTALL)
_OPENING = ("[", "[TOOL_CALLS]", "<|python_tag|>", "```json", "```")
"""What may stand between a thought and a call, from the last on."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function."""

    name: str
    arguments: Mapping[str, Any]
    thought: str = ""
    texts: bool = False
    """Whether the arguments are texts, whatever the types of the function's parameters."""

    def __str__(self) -> str:
        """The call in AgentGym's form."""
        written = {"thought": self.thought, "function_name": self.name, "arguments": dict(self.arguments)}
        return json.dumps(written, ensure_ascii=False)


def read_call(response: str) -> Call:
    """The only call of a response. The text before it is its thought, where it has none itself.

    Raises:
        BadCall: the response has no call that can be read, or several; the message is for the agent.
    """
    tagged = _only(TAGGED, response)
    inner = tagged[1] if tagged else response
    function = _only(_FUNCTION, inner)
    if function is not None:
        call, start = _of_function(*function.groups()), function.start()
    else:
        start = max(inner.find("{"), 0)
        call = call_of(_json(inner[start : inner.rfind("}") + 1]))
    return replace(call, thought=call.thought or _thought(response[: tagged.start() if tagged else start]))


def read_calls(response: str) -> list[Call]:
    """All calls of a response: those in tags, or the only one in another form.

    Raises:
        BadCall: see :func:`read_call`.
    """
    tagged = [] if response.lstrip().startswith("{") else list(TAGGED.finditer(response))
    if len(tagged) < 2:
        return [read_call(response)]
    first, *others = (read_call(match[0]) for match in tagged)
    return [replace(first, thought=first.thought or _thought(response[: tagged[0].start()])), *others]


def call_of(value: Any) -> Call:
    """A call from its JSON value: an object of one of the forms, or a list with one.

    Raises:
        BadCall: it is no such value.
    """
    listed = value.get("tool_calls", value) if isinstance(value, dict) else value
    if isinstance(listed, list) and len(listed) != 1:
        raise _several(len(listed))
    call = listed[0] if isinstance(listed, list) else listed
    if isinstance(call, dict) and isinstance(call.get("function"), dict):
        call = call["function"]
    if not isinstance(call, dict):
        raise BadCall(FORM)
    name, arguments = (_first(call, *keys) for keys in (("function_name", "name"), ("arguments", "parameters")))
    if arguments is None or arguments == "":
        arguments = {}
    elif isinstance(arguments, str):
        arguments = _json(arguments)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise BadCall(FORM)
    thought = call.get("thought")
    return Call(name, arguments, thought if isinstance(thought, str) else "")


def _first(values: Mapping[str, Any], *keys: str) -> Any:
    """The value of the first key that has one."""
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _only(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The only match of a pattern. JSON has none: a tag in it is part of an argument."""
    matches = [] if text.lstrip().startswith("{") else list(pattern.finditer(text))
    if len(matches) > 1:
        raise _several(len(matches))
    return matches[0] if matches else None


def _of_function(name: str, body: str) -> Call:
    if body.lstrip().startswith("{"):
        return call_of({"name": name, "arguments": body})
    return Call(name, dict(_PARAMETER.findall(body)), texts=True)


def _json(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise BadCall(f"{FORM} {error}") from error


def _thought(before: str) -> str:
    before = before.rstrip()
    for mark in _OPENING:
        before = before.removesuffix(mark).rstrip()
    return before.lstrip()


def _several(number: int) -> BadCall:
    return BadCall(f"expected one call per reply, found {number}.")
