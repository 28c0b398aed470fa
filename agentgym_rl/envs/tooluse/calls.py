"""Environments whose tools are described by somebody else: instructions, and calls in responses."""

import json
from collections.abc import Sequence
from typing import Any

from agentgym_rl.envs.tools import Tool
from agentgym_rl.envs.tooluse.tool import Refused, read_command
from agentgym_rl.envs.tooluse.wording import HOW, brief


def instructions(about: str, tools: Sequence[Tool]) -> dict[str, str]:
    """The instruction in each wording: the purpose, the tools with their schemas, and the format of a response."""
    listed = "\n\n".join(
        f"Name: {tool.name}\nDescription: {tool.description}\n"
        f"Arguments: {json.dumps(tool.schema['function']['parameters'], ensure_ascii=False)}"
        for tool in tools
    )
    return {
        "agentgym": f"{about}\n\nYou act by calling these tools, one in each reply:\n\n{listed}\n\n{HOW}",
        "compact": brief(about, tools),
    }


def read_call(tools: Sequence[Tool], command: str) -> tuple[str, dict[str, Any]]:
    """Name and arguments in a command ``<name> with Action Input: <arguments>``.

    Raises:
        Refused: there is no such tool, or the arguments cannot be read or do not fit it; for the agent.
    """
    named = {tool.name: tool for tool in tools}
    name, found, _ = command.partition("with Action Input:")
    if found and name.strip() not in named:
        raise Refused(f"there is no action {name.strip()[:80]!r}; there are {', '.join(named)}")
    return read_command(named, command)
