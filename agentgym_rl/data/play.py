"""Play one task: a policy and a world take turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agentgym_rl.envs.actions import Action, InvalidAction, parse_react
from agentgym_rl.envs.core import Message, Observation, Step, Task, TextEnv

Policy = Callable[[list[Message]], str]
"""From the conversation so far to the assistant's reply. May raise :class:`StopPlaying`."""

Parse = Callable[[str], Action | InvalidAction]
"""From a reply to an action."""

Watch = Callable[[str | None, Step], None]
"""Told of the first observation (as a step without action) and of every action and what it led to."""

Ending = Literal["terminated", "truncated", "turn_limit", "stopped"]
"""Why a play ended: the task did, the world did, the turns were used up, or the policy left."""


class StopPlaying(Exception):
    """Raised by a policy that has nothing more to say."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """One task as it was played."""

    task: Task
    messages: list[Message]
    """The conversation, from the instruction to the last observation."""
    start: int
    """How many of the messages precede the first observation."""
    rewards: list[float]
    """One a turn."""
    invalid: int
    """Turns whose reply could not be read or whose action the world could not carry out."""
    success: bool
    ending: Ending

    @property
    def turns(self) -> int:
        return len(self.rewards)

    @property
    def reward(self) -> float:
        """Reward of the episode."""
        return sum(self.rewards)


async def play(
    env: TextEnv,
    task: Task,
    policy: Policy,
    max_turns: int | None = None,
    parse: Parse = parse_react,
    watch: Watch | None = None,
) -> Transcript:
    """Play ``task`` from its start.

    A reply that cannot be read uses up a turn; the world is not called, and the agent reads why.

    Args:
        max_turns: turn limit; the world's own default where None.

    Raises:
        EnvError: the world failed; the task may be played again from its start.
        ValueError: ``max_turns`` is less than 1.
    """
    limit = env.spec.max_turns if max_turns is None else max_turns
    if limit < 1:
        raise ValueError(f"max_turns is {limit}; give at least 1")
    messages = env.spec.conversation_start(env.style)
    start = len(messages)
    rewards: list[float] = []
    invalid = 0
    ending: Ending = "turn_limit"
    step = Step(await env.reset(task), 0.0, False)
    _hear(messages, step, watch, None)
    while len(rewards) < limit:
        try:
            reply = policy(messages)
        except StopPlaying:
            ending = "stopped"
            break
        messages.append({"role": "assistant", "content": reply})
        action = parse(reply)
        if isinstance(action, Action):
            command = action.command
            step = await env.step(command)
        else:
            command = reply
            step = Step(Observation(action.observation), 0.0, False, info={"invalid": True})
        rewards.append(step.reward)
        invalid += bool(step.info.get("invalid"))
        _hear(messages, step, watch, command)
        if step.done:
            ending = "terminated" if step.terminated else "truncated"
            break
    return Transcript(task, messages, start, rewards, invalid, env.spec.success(sum(rewards)), ending)


def _hear(messages: list[Message], step: Step, watch: Watch | None, command: str | None) -> None:
    messages.append({"role": "user", "content": step.observation.text})
    if watch:
        watch(command, step)
