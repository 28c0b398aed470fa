"""What ``agentgym-rl eval`` is asked for: KEY=VALUE texts and their types."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

_SUCH_AS = {"panel": "textcraft:test:50", "policy": "oracle"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The keys of the command. Rules that are left out are the run's, of a run's weights or panels, or the worlds'."""

    panel: str
    policy: str
    samples: int = 1
    temperature: float = 0.0
    seed: int = 0
    max_turns: int | None = None
    style: str | None = None
    action_format: str | None = None
    turn_tokens: int | None = None
    invalid_limit: int | None = None
    prompt_tokens: int | None = None
    response_tokens: int | None = None
    retries: int | None = None
    concurrency: int | None = None
    backend: str = "auto"
    price: tuple[float, float] = (0.0, 0.0)
    max_cost: float | None = None
    per_minute: float | None = None
    out: Path | None = None


def split(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """``options.*`` and the other keys.

    Raises:
        ValueError: a text is not KEY=VALUE, its key is unknown, or given twice.
    """
    options: list[str] = []
    keys: dict[str, str] = {}
    known = [field.name for field in fields(Request)]
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is not KEY=VALUE; write it like panel=textcraft:test")
        if key.startswith("options."):
            options.append(text)
        elif key not in known:
            raise ValueError(f"unknown key {key!r}; known are {', '.join(known)}, options.WORLD.KEY")
        elif key in keys:
            raise ValueError(f"{key}= is given twice")
        else:
            keys[key] = value
    return options, keys


def read(keys: dict[str, str]) -> Request:
    """Raises ValueError: a key is missing, or a value of the wrong type."""
    for field in fields(Request):
        if field.default is MISSING and field.name not in keys:
            raise ValueError(f"{field.name}= is missing, such as {field.name}={_SUCH_AS[field.name]}")
    return Request(**{key: _value(key, value) for key, value in keys.items()})


def _value(key: str, value: str) -> Any:
    kind = {field.name: str(field.type).removesuffix(" | None") for field in fields(Request)}[key]
    try:
        match kind:
            case "int":
                return int(value)
            case "float":
                return float(value)
            case "Path":
                return Path(value)
            case "str":
                return value
        first, second = value.split(",")
        return float(first), float(second)
    except ValueError:
        expected = {"int": "a whole number", "float": "a number"}.get(kind, "two numbers, like 0.15,0.60")
        raise ValueError(f"{key}={value!r} is not {expected}") from None
