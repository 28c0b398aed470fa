"""The tags of a response: ``<search>`` and ``<answer>``, thoughts in ``<think>``."""

import re
from dataclasses import dataclass
from typing import Literal

from agentgym_rl.envs.actions import Action

_TAG = re.compile("<(search|answer)>")


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a response."""

    kind: Literal["search", "answer"]
    text: str

    def __str__(self) -> str:
        return f"<{self.kind}> {self.text} </{self.kind}>"


def find(response: str) -> Request | None:
    """The request in a response or a command; None without a whole tag.

    As in AgentGym, the first tag decides between search and answer, wherever it stands; of several answers the last one
    counts.
    """
    unclosed = set()
    for tag in _TAG.finditer(response):
        kind = tag[1]
        end = -1 if kind in unclosed else response.find(f"</{kind}>", tag.end())
        if end < 0:
            unclosed.add(kind)
        elif kind == "search":
            return Request("search", _one_line(response[tag.end() : end]))
        else:
            closed = response.split("</answer>")[:-1]
            last = next(piece for piece in reversed(closed) if "<answer>" in piece)
            return Request("answer", _one_line(last.partition("<answer>")[2]))
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def read(response: str) -> Action:
    """Read the request of a response. Without one the command is empty, which the environment refuses."""
    request = find(response)
    thought, closed, _ = response.partition("<think>")[2].partition("</think>")
    return Action("" if request is None else str(request), thought.strip() if closed else "")


def write(command: str, thought: str = "") -> str:
    """The response that :func:`read` reads as this command."""
    return f"<think> {thought} </think>\n{command}" if thought else command
