"""What the agent writes: ``<search>`` and ``<answer>`` tags, thoughts in ``<think>``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.tools import Tool

_TAG = re.compile("<(search|answer)>")

TOOLS = (
    Tool(
        "search",
        "Search the corpus and read the best passages.",
        {"query": {"type": "string", "description": "what to look for"}},
        commands=("<search> {query} </search>",),
    ),
    Tool(
        "answer",
        "Give the answer to the question, as briefly as possible.",
        {"text": {"type": "string", "description": "the answer alone"}},
        commands=("<answer> {text} </answer>",),
    ),
)


@dataclass(frozen=True, slots=True)
class Request:
    """What a reply asks for."""

    kind: Literal["search", "answer"]
    text: str

    def __str__(self) -> str:
        return f"<{self.kind}> {self.text} </{self.kind}>"


def find(reply: str) -> Request | None:
    """The request in a reply, or in a command; None where there is no whole tag.

    As in AgentGym the first tag decides whether to search or to answer, wherever it stands, and of several answers the
    last one counts.
    """
    unclosed = set()
    for tag in _TAG.finditer(reply):
        kind = tag[1]
        end = -1 if kind in unclosed else reply.find(f"</{kind}>", tag.end())
        if end < 0:
            unclosed.add(kind)
        elif kind == "search":
            return Request("search", _one_line(reply[tag.end() : end]))
        else:
            closed = reply.split("</answer>")[:-1]
            last = next(piece for piece in reversed(closed) if "<answer>" in piece)
            return Request("answer", _one_line(last.partition("<answer>")[2]))
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def read(reply: str) -> Action:
    """The request of a reply as command; a reply without one becomes the empty command, which the world refuses."""
    request = find(reply)
    thought, closed, _ = reply.partition("<think>")[2].partition("</think>")
    return Action("" if request is None else str(request), thought.strip() if closed else "")


def write(command: str, thought: str = "") -> str:
    """Write a command as the reply that :func:`read` reads."""
    return f"<think> {thought} </think>\n{command}" if thought else command
