"""What the APIs' forms have in common: each translates, and what is done with a body is written here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_rl.rollout.gateway.body import count, flag, list_of, stops, text_of
from agentgym_rl.rollout.gateway.request import MAX_NAME, ChatMessage, Refusal, Reply, Request

_NAME = re.compile(r"[\w.-]{1,64}\Z", re.ASCII)
"""A parameter that a header can name."""


@dataclass(frozen=True, slots=True)
class Form:
    """How an API writes requests, answers, streams of server-sent events and errors."""

    read: Callable[[Mapping[str, Any]], Request]
    """Raises Refusal: a value is wrong, or asks for what the gateway does not give."""
    write: Callable[[Request, Reply], dict[str, Any]]
    stream: Callable[[Request, Reply], Iterator[bytes]]
    refuse: Callable[[Refusal], dict[str, Any]]


def asked(
    body: Mapping[str, Any],
    *,
    message: Callable[[Any, str], Sequence[ChatMessage]],
    tool: Callable[[Any, str], dict[str, Any]],
    choice: Any,
    max_tokens: str,
    stop: str,
    known: Collection[str],
    opening: Sequence[ChatMessage] = (),
    usage: bool = False,
) -> Request:
    """The request of a body.

    Args:
        message: reads one of ``messages``, given with its place.
        tool: reads one of ``tools``, given with its place.
        choice: which tools the model may call: ``auto``, ``none``, or what the gateway does not enforce.
        max_tokens: name of the most tokens of the reply.
        stop: name of the texts that end it.
        known: names of the other parameters that are read.
        opening: messages before the first one.

    Raises:
        Refusal: a value is wrong.
    """
    messages = list_of(body.get("messages"), "messages")
    if not messages:
        raise Refusal("messages is empty; give at least one message")
    tools = [] if choice == "none" else list_of(body.get("tools"), "tools")
    followed = ("tool_choice",) if choice in ("auto", "none") else ()
    read = {"messages", "tools", "stream", "model", max_tokens, stop, *known, *followed}
    return Request(
        messages=[*opening, *(each for at, value in enumerate(messages) for each in message(value, f"messages[{at}]"))],
        tools=[tool(value, f"tools[{at}]") for at, value in enumerate(tools)],
        max_tokens=count(body, max_tokens),
        stop=stops(body.get(stop), stop),
        stream=flag(body, "stream"),
        usage=usage,
        model=text_of(body.get("model", ""), "model", MAX_NAME),
        ignored=sorted(
            key for key, value in body.items() if value is not None and key not in read and _NAME.match(key)
        ),
    )


def event(data: Mapping[str, Any]) -> bytes:
    """A server-sent event; one that has a type is named by it."""
    named = f"event: {data['type']}\n" if "type" in data else ""
    return f"{named}data: {json.dumps(data)}\n\n".encode()
