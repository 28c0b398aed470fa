"""Data files of the environments: TOML beside the code, read into dataclasses."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def load(kind: type[T], path: Path) -> T:
    """The dataclass ``kind`` of a TOML file. Fields may be scalars, tuples (arrays), mappings and dataclasses (tables).

    Raises:
        ValueError: an entry is unknown, missing or of another type; the message names file and entry.
    """
    found: T = _read(kind, tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    return found


def _read(kind: Any, value: Any, where: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _read_table(kind, _typed(dict, value, where), where)
    if origin is tuple:
        items = _typed(list, value, where)
        parts = parts[:1] * len(items) if parts[-1] is Ellipsis else parts
        if len(items) != len(parts):
            raise ValueError(f"{where}: expected {len(parts)} values, got {len(items)}")
        return tuple(
            _read(part, item, f"{where}[{i}]") for i, (part, item) in enumerate(zip(parts, items, strict=True))
        )
    if origin is Mapping:
        return {key: _read(parts[1], item, f"{where}: {key}") for key, item in _typed(dict, value, where).items()}
    if isinstance(kind, UnionType):
        kind = next((part for part in parts if isinstance(value, get_origin(part) or part)), parts[0])
        return _read(kind, value, where)
    return _typed(kind, value, where)


def _read_table(kind: Any, table: Mapping[str, Any], where: str) -> Any:
    hints = get_type_hints(kind)
    if unknown := sorted(table.keys() - hints.keys()):
        raise ValueError(f"{where}: unknown key {unknown[0]!r}; there are {', '.join(hints)}")
    for field in fields(kind):
        if field.name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where}: the key {field.name!r} is missing")
    return kind(**{name: _read(hints[name], value, f"{where}: {name}") for name, value in table.items()})


def _typed(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, (int, float) if kind is float else kind):
        raise ValueError(f"{where}: {value!r} is not of the type {kind.__name__}")
    return value


@dataclass(frozen=True, slots=True)
class Names:
    """Names of invented people."""

    given: tuple[str, ...]
    family: tuple[str, ...]

    @property
    def full(self) -> list[str]:
        """Every given name with every family name."""
        return [f"{given} {family}" for given in self.given for family in self.family]


NAMES = load(Names, Path(__file__).with_name("names.toml"))
