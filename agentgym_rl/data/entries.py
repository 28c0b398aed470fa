"""Entries of data files: their task, outcome and messages, in every form that has one meaning.

A message is ``{"from", "value"}``, as AgentGym and ShareGPT write it, or ``{"role", "content"}``, as OpenAI, TRL and
axolotl do. What the model wrote is kept: its reasoning as ``<think>...</think>``, the call of a function in AgentGym's
syntax (:mod:`agentgym_rl.envs.calls`). Null is the same as no value, for tables have a column for every key.
"""

from collections.abc import Mapping
from sys import float_info
from typing import Any

from agentgym_rl.envs.bounds import encodable
from agentgym_rl.envs.calls import Call, call_of
from agentgym_rl.envs.core import Message
from agentgym_rl.envs.formats import END_OF_THINKING
from agentgym_rl.envs.tools import BadCall

ROLES = {
    **dict.fromkeys(("human", "user", "tool", "function", "ipython", "observation"), "user"),
    **dict.fromkeys(("gpt", "assistant", "function_call"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
}
"""A message's role for each of its senders; what a function returns is an observation."""
FLAGS = ("loss", "weight", "train", "training")
"""Names of whether a response is trained on: AgentGym's, OpenAI's and axolotl's two."""
REASONING = ("reasoning_content", "reasoning", "thinking")
"""Names of what a model thought before its response."""
CALLS = ("tool_calls", "function_call")
"""Names of the functions that it called."""


def field(value: Any, key: str, kind: type, where: str) -> Any:
    """The value of a key.

    Raises:
        ValueError: ``value`` is no object, has no such key, or one of another kind; begins with what is wrong.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {_kind(value)}, expected an object")
    if key not in value:
        raise ValueError(f"{where} has no {key!r}; its keys: {', '.join(value) or 'none'}")
    if not isinstance(value[key], kind):
        raise ValueError(f"{key!r} of {where} is {_kind(value[key])}, expected {_KINDS[kind]}")
    return _whole(value[key], f"{key!r} of {where}") if kind is str else value[key]


def given(value: Any, *keys: str) -> str:
    """The first of some keys that has a value; where none has, the first that is there, and else the first."""
    there: Mapping[str, Any] = value if isinstance(value, dict) else {}
    return min(keys, key=lambda key: (there.get(key) is None, key not in there))


def item_id(entry: Any) -> Any:
    """The task of an entry: its ``item_id``, or ``item_id`` or ``id`` of its ``extra_info``; None where it has none."""
    if not isinstance(entry, dict):
        return None
    own_id, extra = entry.get("item_id"), entry.get("extra_info")
    return extra.get(given(extra, "item_id", "id")) if own_id is None and isinstance(extra, dict) else own_id


def reward(entry: Mapping[str, Any]) -> float | None:
    """The reward of an entry, None where it has none. Raises ValueError: it is no finite number."""
    value = entry.get("reward")
    if value is None or (isinstance(value, int | float) and abs(value) <= float_info.max):
        return value
    raise ValueError(f"'reward' is {value!r}, expected a number")


def success(entry: Mapping[str, Any]) -> bool | None:
    """Whether an entry says that its task was solved, None where it does not say.

    Raises:
        ValueError: it is neither true nor false.
    """
    return _truth(entry.get("success"), "'success' is")


def message(value: Any, where: str) -> tuple[Message, bool | None]:
    """A message, and whether a response is trained on; None where the file does not say, and for other messages.

    Raises:
        ValueError: it has none of the forms; begins with ``where``.
    """
    sender = field(value, given(value, "from", "role"), str, where)
    if sender not in ROLES:
        raise ValueError(f"{where} is from {sender!r}, expected one of {', '.join(ROLES)}")
    if ROLES[sender] != "assistant":
        return {"role": ROLES[sender], "content": _content(value, where)}, None
    return {"role": "assistant", "content": _response(value, where)}, _loss(value, f"{where} from {sender!r}")


def _content(value: dict[str, Any], where: str) -> str:
    key = given(value, "value", "content")
    if not isinstance(value.get(key), list):
        return str(field(value, key, str, where))
    return "".join(_part(part, f"a part of {where}") for part in value[key])


def _part(part: Any, where: str) -> str:
    if (kind := field(part, "type", str, where)) != "text":
        raise ValueError(f"{where} is of type {kind!r}; only text can be read")
    return str(field(part, "text", str, where))


def _response(value: dict[str, Any], where: str) -> str:
    """All that the model wrote, in the order in which it wrote it."""
    calls, reasoning = value.get(given(value, *CALLS)), given(value, *REASONING)
    if not calls:
        text = _content(value, where)
    else:
        content = "" if value.get(given(value, "value", "content")) is None else _content(value, where)
        text = _whole(_call(calls, content, where), f"the call of {where}")
    if not value.get(reasoning):
        return text
    return f"<think>\n{field(value, reasoning, str, where)}\n{END_OF_THINKING}\n\n{text}"


def _call(calls: Any, content: str, where: str) -> str:
    try:
        call = call_of(calls)
    except BadCall as error:
        raise ValueError(f"the call of {where}: {error}") from error
    return str(Call(call.name, call.arguments, "\n".join(filter(None, (content, call.thought)))))


def _loss(value: dict[str, Any], where: str) -> bool | None:
    flags = {_truth(value.get(name), f"{where} has {name}") for name in FLAGS} - {None}
    if len(flags) > 1:
        raise ValueError(f"{where} is trained on by one of {', '.join(FLAGS)} and not by another")
    return flags.pop() if flags else None


def _truth(value: Any, what: str) -> bool | None:
    if value is not None and value not in (0, 1):
        raise ValueError(f"{what} {value!r}, expected true or false")
    return None if value is None else bool(value)


def _whole(text: str, what: str) -> str:
    if encodable(text) != text:
        raise ValueError(f"{what} holds half a surrogate pair, which no tokenizer takes")
    return text


_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "a number")
