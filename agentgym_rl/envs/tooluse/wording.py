"""The frame of all texts that the agent reads, in each style, for all environments of tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tools import Tool
from agentgym_rl.envs.tooluse.tool import CHECK, Function, ToolEnvTexts

LIMIT = 3_000
"""Characters of a result that are printed."""
HOW = (
    "Answer in exactly this format, with the arguments as one JSON object and at most three sentences of thought:\n"
    "Thought: your reasoning\n\nAction: <name> with Action Input: <arguments>"
)


def instruction(style: Style, texts: ToolEnvTexts, functions: Sequence[Function], finish: Tool) -> str:
    """The text before the first observation."""
    tools = [*(function.tool for function in functions), CHECK, finish]
    if style == "compact":
        return brief(texts.about, [tool for tool in tools if tool is not CHECK])
    returns = {function.tool.name: function.returns for function in functions}
    returns |= {CHECK.name: "the names", finish.name: "the answer"}
    described = "\n\n".join(_describe(tool, returns[tool.name]) for tool in tools)
    return (
        f"{texts.about} You work by calling actions, one in each reply, until you call finish. These actions exist:\n\n"
        f"{described}\n\n"
        f"{texts.hint}\n\n"
        f"{HOW}\n\n"
        f"For example:\n\n{texts.example}"
    )


def brief(about: str, tools: Sequence[Tool]) -> str:
    """The instruction of the ``compact`` style."""
    listed = ", ".join(map(_signature, tools))
    return f"{about} Actions: {listed}. Reply `Action: <action> with Action Input: <JSON>`."


def _signature(tool: Tool) -> str:
    return f"{tool.name}({', '.join(tool.parameters)})"


def _describe(tool: Tool, returns: str) -> str:
    lines = [f"Name: {_signature(tool)}", f"Description: {tool.description}"]
    if tool.parameters:
        lines.append("Parameters:")
    for name, schema in tool.parameters.items():
        kind = schema.get("type", "any")
        kind = ", ".join(kind) if isinstance(kind, list) else kind
        optional = ", may be left out" if name in tool.optional else ""
        lines.append(f"- {name} (Type: {kind}{optional}): {schema.get('description', name)}")
    return "\n".join([*lines, f"Returns: {returns}"])


def first(goal: str, style: Style) -> str:
    """The first observation."""
    if style == "compact":
        return goal
    return f"Now new trial starts.\nYou should perform actions to accomplish the goal: {goal}\nGive me one action."


def result(text: str, style: Style) -> str:
    """The result of a call, cut after :data:`LIMIT` characters."""
    if len(text) > LIMIT:
        text = f"{text[:LIMIT]} ... (cut after {LIMIT} of {len(text)} characters)"
    return text if style == "compact" else f"Observation: {text}\nGive me one action."


def result_in(observation: str, style: str) -> str:
    """The result in an observation of :func:`result`."""
    if style == "compact":
        return observation
    return observation.removeprefix("Observation: ").removesuffix("\nGive me one action.")


def refused(message: str, style: Style) -> str:
    """The reason why a call was refused."""
    return result(f"invalid: {message}" if style == "compact" else f"ERROR | {message}", style)


def names(tools: Sequence[Tool], style: Style) -> str:
    """The result of ``check_valid_actions``."""
    listed = [tool.name for tool in tools]
    return result(" ".join(listed) if style == "compact" else f"You can use following valid actions: {listed}", style)


def values_only(answer: Any) -> str:
    """A result of the ``compact`` style: without the names of its fields."""
    if isinstance(answer, Mapping):
        return " | ".join(values_only(value) for value in answer.values())
    return "; ".join(values_only(value) for value in answer) if isinstance(answer, list) else str(answer)


def write(command: str, thought: str = "") -> str:
    """An action as a response."""
    return f"Thought: {thought}\n\nAction: {command}" if thought else f"Action: {command}"
