"""From a model's reply to an action: the action formats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class ActionFormat(str, Enum):
    """How a reply carries its action. Names and values are AgentGym's; a configuration file gives the names."""

    react = "react"
    function_calling = "function_calling"
    code_as_action = "code_as_action"
    REACT = react
    FUNCTION_CALLING = function_calling
    CODE_AS_ACTION = code_as_action


@dataclass(frozen=True, slots=True)
class Action:
    """A reply that could be read."""

    command: str
    thought: str = ""


@dataclass(frozen=True, slots=True)
class InvalidAction:
    """A reply that could not be read. ``observation`` is what the agent is told; the world is not called."""

    observation: str


_ACTION = re.compile(r"Action:\s*(.*?)(?=\n|$)", re.DOTALL)
_THOUGHT = re.compile(r"Thought:\s*(.*?)(?=\s*Action:|$)", re.DOTALL)
_NOT_COMMAND = re.compile(r"[^A-Za-z0-9, ]+")


def parse_react(reply: str) -> Action | InvalidAction:
    """Read ``Thought: ... Action: ...``.

    As AgentGym's clients for TextCraft and BabyAI do: the command is the first line after the only ``Action:``, freed
    of everything but letters, digits, commas and single spaces. Two actions are an error the agent is told about. A
    reply without an action becomes the empty command, which every world answers in its own words.
    """
    action = parse_line(reply)
    if isinstance(action, InvalidAction):
        return action
    return Action(" ".join(_NOT_COMMAND.sub("", action.command).split()), action.thought)


def parse_line(reply: str) -> Action | InvalidAction:
    """Read ``Thought: ... Action: ...``; the command is the first line after the only ``Action:``, as it stands."""
    commands = _ACTION.findall(reply)
    if len(commands) > 1:
        return InvalidAction(f"Error: expected one 'Action:' per reply, found {len(commands)}. Please give just one.")
    return Action(" ".join(commands[0].split()) if commands else "", _thought(reply))


def parse_rest(reply: str) -> Action | InvalidAction:
    """Read ``Thought: ... Action: ...``; the command is all that follows the last ``Action:``, over several lines."""
    _, found, command = reply.rpartition("Action:")
    return Action(command.strip() if found else "", _thought(reply))


def _thought(reply: str) -> str:
    thought = _THOUGHT.search(reply)
    return thought[1].strip() if thought else ""


def format_react(command: str, thought: str = "") -> str:
    """Write an action as the reply :func:`parse_react` reads."""
    return f"Thought:\n{thought}\n\nAction:\n{command}" if thought else f"Action: {command}"
