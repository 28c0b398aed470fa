"""From a model's response to an action: the action formats."""

import re
from dataclasses import dataclass
from enum import StrEnum


class ActionFormat(StrEnum):
    """How a response carries its action. The values are AgentGym's, and verl-agent's tags."""

    react = "react"
    function_calling = "function_calling"
    code_as_action = "code_as_action"
    tags = "tags"
    REACT = react
    FUNCTION_CALLING = function_calling
    CODE_AS_ACTION = code_as_action
    TAGS = tags


@dataclass(frozen=True, slots=True)
class Action:
    """The action of a response."""

    command: str
    thought: str = ""
    well_formed: bool | None = None
    """Whether the response has the form that was asked for, where that alone says which turns are invalid; None leaves
    it to the environment."""


@dataclass(frozen=True, slots=True)
class InvalidAction:
    """A response without a readable action. The agent gets ``observation``; the environment is not called."""

    observation: str
    fault: str | None = None
    """The exception that the parser raised, where it did: a bug of the parser, whatever the response was."""


_ACTION = re.compile(r"Action:\s*([^\n]*)")
_NOT_COMMAND = re.compile(r"[^A-Za-z0-9, ]+")


def parse_react(response: str) -> Action | InvalidAction:
    """Read ``Thought: ... Action: ...``.

    As in AgentGym's clients for TextCraft and BabyAI, the command is the first line after the only ``Action:``, reduced
    to letters, digits, commas and single spaces. Two actions are an error that the agent reads. A response without an
    action becomes the empty command, which every environment answers in its own words.
    """
    action = parse_line(response)
    if isinstance(action, InvalidAction):
        return action
    return Action(" ".join(_NOT_COMMAND.sub("", action.command).split()), action.thought)


def parse_line(response: str) -> Action | InvalidAction:
    """Read ``Thought: ... Action: ...``; the command is the first line after the only ``Action:``, unchanged."""
    commands = _ACTION.findall(response)
    if len(commands) > 1:
        return InvalidAction(f"Error: expected one 'Action:' per reply, found {len(commands)}. Please give just one.")
    return Action(" ".join(commands[0].split()) if commands else "", _thought(response))


def parse_rest(response: str) -> Action | InvalidAction:
    """Read ``Thought: ... Action: ...``; the command is all text after the last ``Action:``, with its line breaks."""
    _, marker, command = response.rpartition("Action:")
    return Action(command.strip() if marker else "", _thought(response))


def _thought(response: str) -> str:
    return response.partition("Thought:")[2].partition("Action:")[0].strip()


def format_react(command: str, thought: str = "") -> str:
    """Write an action as the response that :func:`parse_react` reads."""
    return f"Thought:\n{thought}\n\nAction:\n{command}" if thought else f"Action: {command}"


_CHINESE = re.compile("[\u4e00-\u9fff]")
TAIL = 30
"""Characters at the end of a response without an action in tags that are taken for one."""


def parse_tags(response: str, tail: int = TAIL, lower: bool = False) -> Action:
    """Read ``<think>...</think> <action>...</action>`` as verl-agent's ``projection.py`` does.

    A response without both tags of an action has its last ``tail`` characters as its command. It is well formed where
    it has all four tags and no Chinese character, whatever the environment makes of the command.

    Args:
        lower: take the command in lower case.
    """
    lowered = response.lower()
    start, end = lowered.find("<action>"), lowered.find("</action>")
    text = lowered if lower or len(lowered) != len(response) else response
    if start == -1 or end == -1:
        return Action(text[-tail:], well_formed=False)
    thought = response.partition("<think>")[2].partition("</think>")[0].strip()
    well_formed = "<think>" in response and "</think>" in response and not _CHINESE.search(response)
    return Action(text[start + len("<action>") : end].strip(), thought, well_formed)


def format_tags(command: str, thought: str = "") -> str:
    """Write an action as the response that :func:`parse_tags` reads."""
    return f"<think>{thought}</think>\n<action>{command}</action>"
