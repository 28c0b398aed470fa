"""Policies that need no model: the oracle and chance."""

from __future__ import annotations

import random
from collections.abc import Sequence

from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import Message, Step, TextEnv
from agentgym_rl.envs.formats import write
from agentgym_rl.rollout.conversation import StopPlaying

SIMPLE_COMMANDS = ("look", "inventory", "go forward", "turn left", "turn right", "check available actions")
"""What chance tries where a world does not list its actions."""


class OraclePolicy:
    """Says the given commands one after the other, then stops.

    In the ``agentgym`` style each reply has a thought, as trajectories of that style do; the thought claims nothing
    beyond the command itself.
    """

    def __init__(
        self, commands: Sequence[str], world: TextEnv, action_format: ActionFormat = ActionFormat.REACT
    ) -> None:
        self._commands = iter(commands)
        self._world = world
        self._format = action_format

    def __call__(self, messages: list[Message]) -> str:
        command = next(self._commands, None)
        if command is None:
            raise StopPlaying
        return say(command, self._world, self._format)

    def watch(self, action: str | None, step: Step) -> None:
        """An oracle needs no eyes."""


class RandomPolicy:
    """Chooses uniformly among the actions the world lists; :meth:`watch` is how it learns of them."""

    def __init__(self, seed: str, world: TextEnv, action_format: ActionFormat = ActionFormat.REACT) -> None:
        self._rng = random.Random(seed)
        self._world = world
        self._format = action_format
        self._possible: Sequence[str] = SIMPLE_COMMANDS

    def __call__(self, messages: list[Message]) -> str:
        return say(self._rng.choice(self._possible), self._world, self._format)

    def watch(self, action: str | None, step: Step) -> None:
        self._possible = step.observation.actions or SIMPLE_COMMANDS


def say(command: str, world: TextEnv, action_format: ActionFormat = ActionFormat.REACT) -> str:
    """A command as a reply in the world's style."""
    thought = f"My next action is: {command}." if world.style == "agentgym" else ""
    return write(world.spec, action_format, command, thought)
