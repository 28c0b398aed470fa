"""The texts that describe an environment to its agent, read from the file ``env.toml`` beside its code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from agentgym_rl.envs.core import EnvSpec
from agentgym_rl.envs.tables import load
from agentgym_rl.envs.tools import Schema, Tool, placeholders

T = TypeVar("T")


@dataclass(frozen=True)
class FunctionText:
    """An action as a function, see :class:`~agentgym_rl.envs.tools.Tool`."""

    description: str
    commands: tuple[str, ...]
    """Their arguments are those of the function; one that not all commands have is optional."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """The schemas of arguments that differ from those of the file."""


@dataclass(frozen=True, kw_only=True)
class FunctionTexts:
    """The actions as functions."""

    arguments: dict[str, Any] = field(default_factory=dict)
    """The JSON schema of each argument; a text is the description of one that is a string."""
    functions: dict[str, FunctionText]
    """By name, in the order in which they are listed to the agent."""

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._tool(name, function) for name, function in self.functions.items())

    def _tool(self, name: str, function: FunctionText) -> Tool:
        per_command = [placeholders(command) for command in function.commands]
        names = dict.fromkeys(key for keys in per_command for key in keys)
        schemas = {**self.arguments, **function.arguments}
        parameters = {key: _schema(schemas[key]) for key in names}
        optional = tuple(key for key in names if not all(key in keys for keys in per_command))
        return Tool(name, function.description, parameters, optional, function.commands)


@dataclass(frozen=True, kw_only=True)
class EnvTexts(FunctionTexts):
    """The keys that every ``env.toml`` has. An environment with texts of its own adds fields in a subclass."""

    licence: str
    """See :class:`~agentgym_rl.envs.core.EnvSpec`."""
    facts: dict[str, Any]
    """Other fields of it that no option changes, such as ``max_turns``."""
    instructions: dict[str, str]
    """By style."""

    def spec(self, name: str, splits: Mapping[str, Sequence[int]], **facts: Any) -> EnvSpec:
        """The facts of the environment: ``facts``, and else what the file says."""
        defaults = {"licence": self.licence, "instructions": self.instructions, "tools": self.tools, **self.facts}
        return EnvSpec(name=name, splits=splits, **(defaults | facts))


def read_texts(module: str, kind: type[T]) -> T:
    """The file ``env.toml`` in the folder of a module; ``module`` is its ``__file__``.

    Raises:
        ValueError: see :func:`agentgym_rl.envs.tables.load`.
    """
    return load(Path(module).with_name("env.toml"), kind)


def _schema(schema: Any) -> Schema:
    return {"type": "string", "description": schema} if isinstance(schema, str) else schema
