"""Tools of an environment: their names, their effect on its state, and the commands that call them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

from agentgym_rl.envs.bounds import encodable_json
from agentgym_rl.envs.tools import BadCall, Tool, literal

S = TypeVar("S")
"""State of a session, which the tools of an environment read and change."""

ECHO = 80
"""Characters of a faulty command or argument that are repeated to the agent."""


class Refused(Exception):
    """A call that cannot be carried out in the present state; the message is for the agent."""


@dataclass(frozen=True, slots=True)
class Function:
    """A tool and the code behind it."""

    tool: Tool
    returns: str
    """Description of the result, for the instruction."""
    run: Callable[..., Any]
    """Called with the state and the arguments by name; the result is printed. May raise :class:`Refused`."""
    brief: Callable[[Any], str] = str
    """Prints a result in the ``compact`` style."""


@dataclass(frozen=True, slots=True)
class ToolText:
    """A tool in a data file."""

    description: str
    returns: str
    """See :class:`Function`."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """The JSON schema of each argument, or the name of one of ``schemas``."""
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """The kinds of tasks whose plans have ``shortest`` to ``longest`` calls, ``finish`` among them."""

    shortest: int
    longest: int
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnvTexts:
    """The file ``env.toml`` of an environment: what the agent reads, and which kinds of tasks there are."""

    about: str
    """The purpose of the tools, one sentence."""
    hint: str
    """Advice on the tools; not in the ``compact`` style."""
    example: str
    """A short episode, from ``Goal:`` to ``finish``; not in the ``compact`` style."""
    licence: str
    official: int
    """AgentGym's tasks have the indices below this one."""
    official_tasks: str
    """Where AgentGym's tasks come from, see :attr:`agentgym_rl.envs.core.EnvSpec.official`."""
    missing: str
    """What AgentGym's tasks need; ends the error about such an index."""
    goals: dict[str, str] = field(default_factory=dict)
    """Templates of goals, in the form of :meth:`str.format`; ``draft`` is the draft of the task."""
    levels: tuple[Level, ...] = ()
    schemas: dict[str, Any] = field(default_factory=dict)
    """JSON schemas that several arguments share."""
    tools: dict[str, ToolText] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, text in self.tools.items():
            for schema in text.parameters.values():
                if isinstance(schema, str) and schema not in self.schemas:
                    raise ValueError(f"tools > {name}: there is no schema {schema!r}")

    def kinds(self, *modules: ModuleType) -> dict[range, list[Callable[[Any], Any]]]:
        """The kinds of tasks of each level: functions of these modules, by the possible lengths of a plan.

        Raises:
            KeyError: no module has a function of this name.
        """
        known = {name: kind for module in modules for name, kind in vars(module).items()}
        return {
            range(level.shortest, level.longest + 1): [known[name] for name in level.kinds] for level in self.levels
        }

    def methods(self, state: type) -> dict[str, Callable[..., Any]]:
        """The methods of a class of states that have the names of tools."""
        return {name: method for name, method in vars(state).items() if name in self.tools}

    def functions(
        self, runs: Mapping[str, Callable[..., Any]], briefs: Mapping[str, Callable[[Any], str]]
    ) -> dict[str, Function]:
        """The tools with the code behind them and the way to print their results, see :class:`Function`, by name."""
        if wrong := runs.keys() ^ self.tools.keys():
            raise ValueError(f"these tools lack a description or code: {', '.join(sorted(wrong))}")
        return {
            name: Function(self._tool(name, text), text.returns, runs[name], briefs.get(name, str))
            for name, text in self.tools.items()
        }

    def _tool(self, name: str, text: ToolText) -> Tool:
        parameters = {
            key: self.schemas[each] if isinstance(each, str) else each for key, each in text.parameters.items()
        }
        return Tool(name, text.description, parameters, text.optional)


FINISH = Tool(
    "finish",
    "Give the answer and end the task.",
    {
        "answer": {
            "type": ["string", "number", "boolean", "array"],
            "items": {"type": ["string", "number", "boolean"]},
            "description": "the answer",
        }
    },
)
CHECK = Tool("check_valid_actions", "List the names of all actions.")


def read_command(tools: Mapping[str, Tool], command: str) -> tuple[str, dict[str, Any]]:
    """Name and arguments in a command ``<name> with Action Input: <arguments>``.

    Arguments are a JSON object or, as AgentGym also takes, a Python dictionary of literals.

    Raises:
        Refused: there is no such tool, or the arguments cannot be read or do not fit it.
    """
    name, found, text = command.partition("with Action Input:")
    name = name.strip()
    if not found:
        raise Refused("no '<action> with Action Input: <arguments>' in the reply")
    if name not in tools:
        raise Refused(f"there is no action {name[:ECHO]!r}; check_valid_actions lists all")
    try:
        return name, tools[name].plain(_arguments(text.strip()))
    except BadCall as error:
        raise Refused(str(error)[: 3 * ECHO]) from error
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise Refused(f"{name}: the arguments must be one JSON object, such as {_sample(tools[name])}") from error


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text, strict=False, parse_constant=_no_number)
    except json.JSONDecodeError:
        arguments = literal(text)
    arguments = encodable_json(arguments)
    if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments):
        raise ValueError("no object with names as keys")
    return arguments


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _sample(tool: Tool) -> str:
    return json.dumps({name: "..." for name in tool.parameters if name not in tool.optional})
