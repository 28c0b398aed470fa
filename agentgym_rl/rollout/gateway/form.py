"""What the APIs' forms have in common: each translates, and what is done with a body is written here."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_rl.rollout.gateway.body import count, flag, list_of, stops, text_of
from agentgym_rl.rollout.gateway.request import MAX_NAME, ChatMessage, Refusal, Reply, Request


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
    ignored: Collection[str],
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
        ignored: names of parameters without effect.
        opening: messages before the first one.

    Raises:
        Refusal: a value is wrong.
    """
    messages = list_of(body.get("messages"), "messages")
    if not messages:
        raise Refusal("messages is empty; give at least one message")
    tools = [] if choice == "none" else list_of(body.get("tools"), "tools")
    followed = () if choice not in ("auto", "none") else ("tool_choice",)
    return Request(
        messages=[*opening, *(each for at, value in enumerate(messages) for each in message(value, f"messages[{at}]"))],
        tools=[tool(value, f"tools[{at}]") for at, value in enumerate(tools)],
        max_tokens=count(body, max_tokens),
        stop=stops(body.get(stop), stop),
        stream=flag(body, "stream"),
        usage=usage,
        model=text_of(body.get("model", ""), "model", MAX_NAME),
        ignored=[name for name in ignored if body.get(name) is not None and name not in followed],
    )


def event(data: Mapping[str, Any]) -> bytes:
    """A server-sent event; one that has a type is named by it."""
    named = f"event: {data['type']}\n" if "type" in data else ""
    return f"{named}data: {json.dumps(data)}\n\n".encode()
