"""Policies that need no model: the oracle and chance."""

from __future__ import annotations

import random
from collections.abc import Sequence

from agentgym_rl.data.conversation import StopPlaying
from agentgym_rl.envs.actions import format_react
from agentgym_rl.envs.core import Message, Step, Style

SIMPLE_COMMANDS = ("look", "inventory", "go forward", "turn left", "turn right", "check available actions")
"""What chance tries where a world does not list its actions."""


class OraclePolicy:
    """Says the given commands one after the other, then stops.

    In the ``agentgym`` style each reply has a thought, as trajectories of that style do; the thought claims nothing
    beyond the command itself.
    """

    def __init__(self, commands: Sequence[str], style: Style) -> None:
        self._commands = iter(commands)
        self._style = style

    def __call__(self, messages: list[Message]) -> str:
        command = next(self._commands, None)
        if command is None:
            raise StopPlaying
        return say(command, self._style)

    def watch(self, action: str | None, step: Step) -> None:
        """An oracle needs no eyes."""


class RandomPolicy:
    """Chooses uniformly among the actions the world lists; :meth:`watch` is how it learns of them."""

    def __init__(self, seed: str, style: Style) -> None:
        self._rng = random.Random(seed)
        self._style = style
        self._possible: Sequence[str] = SIMPLE_COMMANDS

    def __call__(self, messages: list[Message]) -> str:
        return say(self._rng.choice(self._possible), self._style)

    def watch(self, action: str | None, step: Step) -> None:
        self._possible = step.observation.actions or SIMPLE_COMMANDS


def say(command: str, style: Style) -> str:
    """A command as a reply of the style."""
    return format_react(command, f"My next action is: {command}." if style == "agentgym" else "")
