"""TRL's ``environment_factory``: an environment whose actions are the tools of a class. TRL itself is not imported.

from agentgym_rl.compat.trl import environment_factory, rows

trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    train_dataset=Dataset.from_list(rows("textcraft", "train")),
    environment_factory=environment_factory("textcraft"),
    args=GRPOConfig(max_tool_calling_iterations=20),
)
"""

import inspect
import json
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import Any

from agentgym_rl.envs.core import Task
from agentgym_rl.envs.sync import make
from agentgym_rl.envs.tools import BadCall, Tool, types_of

TYPES: Mapping[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list[Any], "object": dict, "null": None,
}  # fmt: skip
"""Python's types for those of JSON schemas."""
ACT = Tool("act", "Carry out one action.", {"action": {"type": "string", "description": "The action, as text."}},
           commands=("{action}",))  # fmt: skip
"""The tool of an environment that describes none."""


class ToolEnv:
    """An environment as TRL uses it; the classes of :func:`environment_factory` have a method for each tool."""

    _name: str
    _options: Mapping[str, Any]

    def __init__(self) -> None:
        self._env = make(self._name, **self._options)
        self._over = True
        self._failed = False
        self._reward = 0.0

    def reset(self, item_id: str, **row: Any) -> str:
        """Start a task; returns the first observation, which TRL appends to the prompt.

        Args:
            item_id: the task, such as ``textcraft_12``.
            row: further columns of the data set.

        Raises:
            TaskNotFound: there is no such task.
            EnvUnavailable, EnvTimeout: the environment cannot start it.
        """
        self._over, self._failed, self._reward = True, True, 0.0
        observation = self._env.reset(item_id)
        self._over = self._failed = False
        return observation

    def get_reward(self) -> float | None:
        """The reward of the episode, in [0, 1]; None, which TRL leaves out, where the environment failed."""
        return None if self._failed else self._reward

    def _call(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        if self._over:
            return "The episode is over."
        try:
            command = tool.command(arguments)
        except BadCall as error:
            return f"Error: {error}"
        try:
            observation, reward, terminated, truncated, _ = self._env.step(command)
        except Exception:  # whatever it is, TRL would go on with it as the result of the call
            self._over = self._failed = True
            raise
        self._reward += reward
        self._over = terminated or truncated
        return observation


def environment_factory(name: str, **options: Any) -> type[ToolEnv]:
    """The class of an environment for TRL's ``environment_factory``, alone or in its dict of several.

    Args:
        options: of the environment's class.

    Raises:
        UnknownEnv, MissingExtra: see :func:`agentgym_rl.envs.make`.
        ValueError: a tool has a name that TRL reserves.
    """
    tools = make(name, **options).spec.tools or (ACT,)
    members = {tool.name: _method(tool) for tool in tools}
    if reserved := {member for member in members if member in vars(ToolEnv) or member.startswith("_")}:
        raise ValueError(f"{name} has a tool {min(reserved)!r}, a name that TRL reserves")
    return type(name, (ToolEnv,), {**members, "_name": name, "_options": options, "__doc__": ToolEnv.__doc__})


def rows(name: str, split: str, **options: Any) -> list[dict[str, Any]]:
    """Rows of a data set: ``prompt`` with the instruction, ``item_id`` of each task of a split, and ``environment``.

    Raises:
        UnknownEnv, MissingExtra: see :func:`agentgym_rl.envs.make`.
        ValueError: there is no such split, or the wording has no instruction.
    """
    env = make(name, **options)
    indices = env.spec.indices(split)
    if env.spec.prompt is not None:
        raise ValueError(f"style={env.env.style} has no instruction to begin with; choose agentgym or compact")
    instruction = f"{env.instruction}\n\nAct by calling the tools.\n\n"
    prompt = [{"role": "user", "content": instruction}]
    return [{"prompt": prompt, "item_id": str(Task(name, index)), "environment": name} for index in indices]


def _method(tool: Tool) -> Callable[..., str]:
    """A method with the signature and the docstring from which transformers makes the schema of a tool."""

    def method(self: ToolEnv, *positional: Any, **named: Any) -> str:
        arguments = signature.bind(self, *positional, **named).arguments
        left_out = {name for name in tool.optional if arguments.get(name) is None}
        return self._call(tool, {name: arguments[name] for name in tool.parameters if name not in left_out})

    hints = {name: _type(schema) for name, schema in tool.parameters.items()}
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name in sorted(hints, key=lambda name: name in tool.optional):
        hints[name] = hints[name] | None if name in tool.optional else hints[name]
        default = None if name in tool.optional else inspect.Parameter.empty
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=hints[name]))
    signature = inspect.Signature(parameters, return_annotation=str)
    method.__name__ = method.__qualname__ = tool.name
    method.__doc__ = _docstring(tool)
    method.__annotations__ = {**hints, "return": str}
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def _type(schema: Mapping[str, Any]) -> Any:
    kinds = types_of(schema) or {"string"}
    return reduce(or_, [kind for name, kind in TYPES.items() if name in kinds])


def _words(schema: Mapping[str, Any]) -> bool:
    """Whether the choices are texts: transformers reads no others."""
    return "enum" in schema and all(isinstance(choice, str) for choice in schema["enum"])


def _docstring(tool: Tool) -> str:
    lines = []
    for name, schema in tool.parameters.items():
        choices = f" (choices: {json.dumps(schema['enum'])})" if _words(schema) else ""
        lines.append(f"    {name}: {' '.join(schema.get('description', name).split())}{choices}")
    listed = "\n".join(["", "", "Args:", *lines]) if lines else ""
    return f"{tool.description}{listed}\n\nReturns:\n    What the environment answers."
