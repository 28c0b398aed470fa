"""Sessions of the environments of tools."""

import json

from sessions import play

from agentgym_rl.envs import Step
from agentgym_rl.envs.core import TextEnv


def call(name: str, /, **arguments: object) -> str:
    """The command of a call."""
    return f"{name} with Action Input: {json.dumps(arguments)}"


def run_episode(env: TextEnv, index: int, *actions: str) -> tuple[str, list[Step]]:
    """The first observation's text, and actions until the episode ends."""
    first, steps = play(env, index, *actions)
    return first.text, steps
