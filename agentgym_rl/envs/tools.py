"""Actions as functions: their JSON schemas, and the conversion between calls and commands."""

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from string import Formatter
from typing import Any

from jsonschema import Draft202012Validator, SchemaError, ValidationError

Schema = Mapping[str, Any]
"""A JSON schema of one argument, with ``type`` and ``description``."""


LONGEST_CODE = 1 << 15
"""Characters of code that are parsed."""
TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
"""JSON Schema's."""


class BadCall(ValueError):
    """A call without a command of the environment; the message is for the agent."""


@dataclass(frozen=True)
class Tool:
    """One action of an environment as a function.

    ``commands`` are the environment's commands with the arguments in braces, such as ``give {object} to {person}``. A
    call becomes the first one with exactly its arguments, so optional arguments need one each. Without any, the command
    is AgentGym's ``<name> with Action Input: <arguments as JSON>``.
    """

    name: str
    description: str
    parameters: Mapping[str, Schema] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    """Parameters that a call may leave out."""
    commands: tuple[str, ...] = ()
    whole: Schema | None = None
    """The JSON schema of all arguments together, where it says more than the parameters do; see :func:`tool_of`."""

    def __post_init__(self) -> None:
        for template in self.commands:
            if unknown := set(placeholders(template)) - set(self.parameters):
                raise ValueError(f"command {template!r} of tool {self.name} names no parameter {sorted(unknown)}")

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The function in the form of OpenAI's API."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self._arguments},
        }

    @cached_property
    def signature(self) -> str:
        """The function as a Python stub, with its description as docstring."""
        listed = ", ".join(f"{name}=None" if name in self.optional else name for name in self._order)
        lines = [f"def {self.name}({listed}):", f'    """{self.description}']
        lines += [
            f"    {name} ({schema.get('type', 'any')}): {schema.get('description', name)}"
            for name, schema in self.parameters.items()
        ]
        return "\n".join(lines) + ('"""' if len(lines) == 2 else '\n    """')

    @property
    def _order(self) -> list[str]:
        """The parameters in the order of positional arguments: required ones first."""
        return sorted(self.parameters, key=lambda name: name in self.optional)

    @cached_property
    def _arguments(self) -> dict[str, Any]:
        if self.whole is not None:
            return dict(self.whole)
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.parameters.items()},
            "required": [name for name in self.parameters if name not in self.optional],
            "additionalProperties": False,
        }

    @property
    def _validator(self) -> Draft202012Validator:
        """A new one each time: it cannot be pickled, and a tool can."""
        return Draft202012Validator(self._arguments)

    def command(self, arguments: Mapping[str, Any]) -> str:
        """The command for a call.

        Raises:
            BadCall: an argument is missing, unknown or of the wrong kind.
        """
        plain = self.plain(arguments)
        if not self.commands:
            return f"{self.name} with Action Input: {json.dumps(plain, ensure_ascii=False)}"
        for template in self.commands:
            if set(placeholders(template)) == set(plain):
                return template.format(**{name: _written(value) for name, value in plain.items()})
        raise BadCall(f"{self.name}: no such combination of arguments: {', '.join(plain) or 'none'}")

    def plain(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments in the types of JSON; Python's literals have more. An integer that is given as 3.0 becomes 3.

        Raises:
            BadCall: a value is none of JSON's or has too many digits or levels, or the arguments do not fit the tool.
        """
        try:
            plain: dict[str, Any] = json.loads(json.dumps(dict(arguments), allow_nan=False))
            fault = next(iter(self._validator.iter_errors(plain)), None)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadCall(f"{self.name}: the arguments must be values of JSON: {error}") from error
        if fault is not None:
            where = f"argument {fault.path[0]!r}: " if fault.path else ""
            raise BadCall(f"{self.name}: {where}{fault.message}")
        return {name: _whole(value, self.parameters.get(name, {})) for name, value in plain.items()}

    def arguments(self, command: str) -> dict[str, Any] | None:
        """The arguments of a call that gives the command; None where no call of this tool gives it."""
        if not self.commands:
            name, separator, arguments = command.partition(" with Action Input:")
            if not separator or name.strip() != self.name:
                return None
            try:
                return self._checked(json.loads(arguments, strict=False))
            except (ValueError, RecursionError):
                return None
        for template in self.commands:
            match = self._pattern(template).fullmatch(command)
            if match and (checked := self._checked(self.typed(match.groupdict()))) is not None:
                return checked
        return None

    def _checked(self, arguments: Any) -> dict[str, Any] | None:
        return arguments if self._validator.is_valid(arguments) else None

    def _pattern(self, template: str) -> re.Pattern[str]:
        parts = []
        for text, name, _, _ in Formatter().parse(template):
            parts.append(re.escape(text))
            if name is not None:
                choices = self.parameters[name].get("enum")
                inner = "|".join(re.escape(str(choice)) for choice in choices) if choices else ".+?"
                parts.append(f"(?P<{name}>{inner})")
        return re.compile("".join(parts), re.DOTALL)

    def typed(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Arguments from their texts; what has another type than its parameter, or no parameter, stays a text."""
        whole = self._validator
        faults = {name: whole.evolve(schema=schema).iter_errors for name, schema in self.parameters.items()}
        return {name: _closest(text, faults[name]) if name in faults else text for name, text in texts.items()}


def value_of(text: str, kind: Any) -> Any:
    """A text as a value of one of JSON Schema's types, or of one of a list of them; a text where it is of none."""
    kinds = [each for each in (kind if isinstance(kind, list) else [kind]) if each in TYPES]
    return _closest(text, Draft202012Validator({"type": kinds}).iter_errors) if kinds else text


def _closest(text: str, faults: Callable[[Any], Iterable[ValidationError]]) -> Any:
    """The first of the values that a text may stand for which has no faults, or else which has the right type."""

    def misfit(value: Any) -> int:
        try:
            rules = [fault.validator for fault in faults(value)]
        except RecursionError:
            return 2
        return 2 if "type" in rules else min(len(rules), 1)

    return min(_readings(text), key=misfit)


def _readings(text: str) -> Iterator[Any]:
    """The text itself, and the JSON value that it is; of ``true``, ``false`` and ``null`` in any spelling."""
    yield text
    with suppress(ValueError, RecursionError):
        word = text.strip().lower()
        json_text = word if word in ("true", "false", "null") else text
        yield json.loads(json_text, strict=False, parse_constant=_no_number)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def types_of(schema: Schema) -> set[str]:
    """The types that a schema names, also in its alternatives."""
    kinds = schema.get("type", ())
    alternatives = [part for key in ("anyOf", "oneOf") for part in schema.get(key, ()) if isinstance(part, Mapping)]
    return {kinds} if isinstance(kinds, str) else set(kinds).union(*map(types_of, alternatives))


def _whole(value: Any, schema: Schema) -> Any:
    """The value; 3.0 becomes an integer where the schema asks for one, which accepts 3.0, too."""
    if isinstance(value, list):
        items = schema.get("items")
        return [_whole(each, items) for each in value] if isinstance(items, Mapping) else value
    due = "integer" in (kinds := types_of(schema)) and "number" not in kinds
    return int(value) if due and isinstance(value, float) and value.is_integer() else value


def _written(value: Any) -> Any:
    """The value as a command has it: a float without an exponent."""
    return f"{Decimal(repr(value)):f}" if isinstance(value, float) else value


def tool_of(name: str, description: str, schema: Schema) -> Tool:
    """The tool of a server that gives the JSON schema of its arguments, which stays as it is.

    Raises:
        ValueError: it is no schema of an object.
    """
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"tool {name}: its schema is none: {error.message}") from error
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    return Tool(
        name,
        description,
        {key: each if isinstance(each, Mapping) else {} for key, each in properties.items()},
        tuple(key for key in properties if key not in required),
        whole=schema,
    )


def placeholders(template: str) -> list[str]:
    """The names in braces in a command."""
    return [name for _, name, _, _ in Formatter().parse(template) if name is not None]


def to_command(tools: tuple[Tool, ...], name: str, arguments: Mapping[str, Any], texts: bool = False) -> str:
    """The command of a call.

    Args:
        texts: the arguments are texts, to be read as the tool's types.

    Raises:
        BadCall: there is no such tool, or the arguments do not fit it.
    """
    tool = _find(tools, name)
    return tool.command(tool.typed(arguments) if texts else arguments)


def _find(tools: tuple[Tool, ...], name: str) -> Tool:
    for tool in tools:
        if tool.name == name:
            return tool
    raise BadCall(f"there is no function {name!r}; there are {', '.join(tool.name for tool in tools)}")


def to_call(tools: tuple[Tool, ...], command: str) -> tuple[str, dict[str, Any]]:
    """Name and arguments of a call that gives the command.

    Raises:
        BadCall: no tool gives it.
    """
    for tool in tools:
        arguments = tool.arguments(command)
        if arguments is not None:
            return tool.name, arguments
    raise BadCall(f"no function stands for the command {command!r}")


def read_code(tools: tuple[Tool, ...], code: str) -> str:
    """The command of Python code that is one call of a tool with literal arguments. Nothing is evaluated.

    Raises:
        BadCall: it is anything else, or longer than :data:`LONGEST_CODE`.
    """
    if len(code) > LONGEST_CODE:
        raise BadCall(f"the code has {len(code)} characters; at most {LONGEST_CODE} are read")
    try:
        with warnings.catch_warnings(action="ignore"):  # of Python about what the model wrote, such as "\\d"
            body = ast.parse(code).body
    except SyntaxError as error:
        raise BadCall(f"the code cannot be parsed: {error.msg}") from error  # without the place
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadCall(f"the code cannot be parsed: {error}") from error
    if len(body) != 1 or not isinstance(body[0], ast.Expr) or not isinstance(body[0].value, ast.Call):
        raise BadCall("the code must be exactly one call of one of the functions")
    call = body[0].value
    if not isinstance(call.func, ast.Name):
        raise BadCall("the code must call one of the functions by its name")
    tool = _find(tools, call.func.id)
    if len(call.args) > len(tool.parameters):
        raise BadCall(f"{tool.name} takes {len(tool.parameters)} arguments, got {len(call.args)}")
    arguments: dict[str, Any] = {}
    pairs = [*zip(tool._order, call.args, strict=False), *((word.arg, word.value) for word in call.keywords)]
    for name, node in pairs:
        if name is None or name in arguments:
            raise BadCall(f"{tool.name}: each argument must be given once, by position or name")
        try:
            arguments[name] = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
            raise BadCall(f"{tool.name}: argument {name!r} must be a literal, such as 'text' or 3") from error
    return tool.command(arguments)


def literal(text: str) -> Any:
    """The value of a Python literal, without Python's warnings about what the model wrote.

    Raises:
        ValueError: it is longer than :data:`LONGEST_CODE`, or no literal.
        SyntaxError, TypeError, MemoryError, RecursionError: see :func:`ast.literal_eval`.
    """
    if len(text) > LONGEST_CODE:
        raise ValueError(f"the literal has {len(text)} characters; at most {LONGEST_CODE} are read")
    with warnings.catch_warnings(action="ignore"):
        return ast.literal_eval(text)


def write_code(tools: tuple[Tool, ...], command: str) -> str:
    """The call of a tool that gives the command, as Python code.

    Raises:
        BadCall: no tool gives it.
    """
    name, arguments = to_call(tools, command)
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
