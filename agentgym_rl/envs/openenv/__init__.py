"""Any environment on an OpenEnv server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from agentgym_rl.envs.actions import parse_rest
from agentgym_rl.envs.core import EnvSpec, EnvUnavailable, Observation, ProtocolError, Step, Style, Task, TextEnv
from agentgym_rl.envs.splits import no_task
from agentgym_rl.envs.tools import Tool, tool_of
from agentgym_rl.envs.tooluse import wording
from agentgym_rl.envs.tooluse.calls import instructions, read_call

if TYPE_CHECKING:
    from agentgym_rl.envs.protocol.openenv.client import Offer

SEEDS = {"train": range(100, 100_100), "test": range(100)}
"""Splits of a server without a Task API: the seeds of its resets."""
TOOLS = "tools"
TEXT_FIELDS = ("message", "action_str")
"""Fields for text that go before others of an action."""
ACT = "act"
"""The tool that stands for the actions of a server that has no tools and takes more than a text."""


class OpenEnv(TextEnv):
    """Any environment on an OpenEnv server; :mod:`agentgym_rl.envs.hosts.openenv` runs its episodes.

    Its facts are what the server says: the description is the instruction, the schema of its actions decides how the
    agent acts, its tools are the environment's, the splits of its Task API, or else seeds, are the tasks.

    Args:
        style: wording of the instruction's frame.
        instruction: replaces the server's description.
        action: the field of an action that the agent's text goes into, or ``tools`` to call the server's tools. Left
            out: ``message``, ``action_str`` or the only field, where that is a text; else the server's tools; else all
            fields are the arguments of one tool.
        observation: the field of an observation that the agent reads; ``text``, or all as JSON, where left out.
        full_reward: the server's reward for a solved task; rewards are divided by it.
        max_turns: default turn limit.
        success_above: an episode is a success when its summed reward, in [0, 1], is greater than this.

    Raises:
        ValueError: an argument is out of range.
    """

    name = "openenv"

    def __init__(
        self,
        style: Style = "agentgym",
        instruction: str | None = None,
        action: str | None = None,
        observation: str | None = None,
        full_reward: float = 1.0,
        max_turns: int = 30,
        success_above: float = 0.99,
    ) -> None:
        super().__init__(style)
        if full_reward <= 0:
            raise ValueError(f"full_reward is {full_reward:g}; give the reward of a solved task, more than 0")
        self._instruction, self._action = instruction, action
        self.observation, self.full_reward = observation, full_reward
        self._limits: dict[str, Any] = {"max_turns": max_turns, "success_above": success_above}
        self._field, self._by_seed = action or "message", True
        self._splits: Mapping[str, range] = SEEDS
        self._spec = self._described(instruction or "You act in an environment.", ())

    def with_facts(self, offer: Offer) -> OpenEnv:
        """This environment with the facts of a server. Raises ProtocolError: the server takes no such actions."""
        env = copy(self)
        env._field, tools = self._way(offer)
        env._by_seed = not offer.splits
        splits, start = {}, 0
        for split, size in offer.splits.items():
            splits[split] = range(start, start + size)
            start += size
        about = self._instruction or offer.description
        env._splits = splits or SEEDS
        env._spec = env._described(about, tools)
        return env

    def reset_data(self, task: Task) -> dict[str, Any]:
        """What a reset to a task asks the server for: a seed, or a split and the place in it.

        Raises:
            TaskNotFound: no split has the task.
        """
        index = self._index(task)
        for split, indices in self._splits.items():
            if index in indices:
                return {"seed": index} if self._by_seed else {"split": split, "index": index - indices[0]}
        raise no_task(self.name, index, self._splits.values())

    def step_data(self, command: str) -> dict[str, Any]:
        """The action of a command. Raises Refused: the command is no call of a tool; for the agent."""
        if not self._spec.tools:
            return {self._field: command}
        name, arguments = read_call(self._spec.tools, command)
        return {"type": "call_tool", "tool_name": name, "arguments": arguments} if self._field == TOOLS else arguments

    def _way(self, offer: Offer) -> tuple[str, tuple[Tool, ...]]:
        """The field that texts go into, or ``tools`` or ``act`` with the tools."""
        properties: Mapping[str, Any] = offer.action.get("properties", {})
        fields = {key: value for key, value in properties.items() if key != "metadata"}
        if self._action == TOOLS:
            if not offer.tools:
                raise ProtocolError(f"action=tools, but {offer.base} lists no tools")
            return TOOLS, offer.tools
        if self._action is not None:
            if self._action not in fields:
                known = ", ".join(fields) or "none"
                raise ProtocolError(f"action={self._action}, but the actions of {offer.base} have the fields {known}")
            return self._action, ()
        texts = [key for key in TEXT_FIELDS if key in fields] or [key for key in fields if len(fields) == 1]
        if texts and fields[texts[0]].get("type") == "string":
            return texts[0], ()
        if offer.tools:
            return TOOLS, offer.tools
        if not fields:
            raise ProtocolError(f"{offer.base} describes no action; set the option action to the field for texts")
        required = [key for key in offer.action.get("required", ()) if key in fields]
        schema = {**offer.action, "properties": fields, "required": required}
        return ACT, (tool_of(ACT, "Carry out an action.", schema),)

    def _described(self, about: str, tools: Sequence[Tool]) -> EnvSpec:
        plain = f"{about}\n\nAnswer in exactly this format:\nThought: your reasoning\n\nAction: what you say or do"
        brief = f"{about} Reply `Action: <what you say or do>`."
        return EnvSpec(
            name=self.name,
            instructions=instructions(about, tools) if tools else {"agentgym": plain, "compact": brief},
            splits=self._splits,
            tools=tuple(tools),
            read=parse_rest,
            write=wording.write,
            deterministic=False,
            replayable=False,
            extra="remote",
            repeats="the server makes the tasks",
            licence="the server's",
            **self._limits,
        )

    async def _reset(self, task: Task) -> Observation:
        raise EnvUnavailable("openenv runs on an OpenEnv server; give its address, such as ws://127.0.0.1:8000")

    async def _step(self, action: str) -> Step:
        raise AssertionError("reset always raises")

    def goal(self, task: Task) -> str:
        """The item id: only the server knows more."""
        self._index(task)
        return str(task)

    def difficulty(self, task: Task) -> str:
        self._index(task)
        return self.name
