"""Typed dataclasses as OmegaConf composes them, and back.

OmegaConf knows choices by the names of their enumerations, makes no field of a frozen class, and runs no checks while a
recipe is half composed. It therefore gets a copy of each dataclass, in which a choice is text. What it composed becomes
the dataclass itself, whose ``__post_init__`` checks the values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING as ABSENT
from dataclasses import Field, field, fields, is_dataclass, make_dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cache
from math import isnan
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from omegaconf import MISSING, DictConfig, ListConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from agentgym_rl.engine.recipe.others import WORDS

CHOSEN = {"algorithm": "name", "curriculum": "type", "mixture": "type"}
"""The key of a group that holds its choice."""
BLOCKS = {"algorithm.loss": "name", "algorithm.correction": "kind", "writer": "policy"}
"""The key that ``BLOCK=CHOICE`` sets on a command line."""


KINDS = "kinds"
"""Metadata of a field whose class goes by its key ``name``: a function that gives the classes by name."""


class RecipeError(ValueError):
    """A recipe or an override is wrong; the message names the key."""


def schema(kind: Any) -> type:
    """The copy of a dataclass that OmegaConf composes."""
    copied: type = _copy(kind)
    return copied


@cache
def _copy(kind: Any) -> type:
    hints = get_type_hints(kind)
    bases = tuple(schema(base) for base in kind.__bases__ if is_dataclass(base))
    copied = [
        (setting.name, Any, field(default_factory=dict)) if KINDS in setting.metadata
        else (setting.name, _plain(hints[setting.name]), _default(setting, hints[setting.name]))
        for setting in fields(kind)
    ]  # fmt: skip
    return make_dataclass(kind.__name__, copied, bases=bases, kw_only=True, namespace={"copy_of": kind})


def _plain(hint: Any) -> Any:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return str
    if is_dataclass(hint):
        return schema(hint)
    if (origin := get_origin(hint)) is None:
        return hint
    if origin is Literal:
        return str
    inner = tuple(map(_plain, get_args(hint)))
    return Union[inner] if origin in (Union, UnionType) else origin[inner]  # noqa: UP007


def _default(setting: Field[Any], hint: Any) -> Any:
    if is_dataclass(hint):
        return field(default_factory=schema(hint))
    if setting.default_factory is not ABSENT:
        return field(default_factory=setting.default_factory)
    default = MISSING if setting.default is ABSENT else setting.default
    return field(default=default.value if isinstance(default, Enum) else default)


def typed(node: DictConfig, path: str = "") -> Any:
    """The dataclass of a composed node.

    Args:
        path: where the node is in the tree, for messages.

    Raises:
        RecipeError: a key is unknown, a value is no choice, or the dataclass refuses it.
    """
    composed: Any = OmegaConf.get_type(node)
    kind = composed.copy_of
    hints = get_type_hints(kind)
    known = {setting.name for setting in fields(kind)}
    if unknown := [str(key) for key in node if key not in known]:
        raise RecipeError(_unknown(f"{path}.{unknown[0]}".lstrip("."), kind))
    values = {}
    for setting in fields(kind):
        place = f"{path}.{setting.name}".lstrip(".")
        values[setting.name] = (
            _of_kind(setting, node[setting.name], place)
            if KINDS in setting.metadata
            else _value(hints[setting.name], node[setting.name], place)
        )
    try:
        return kind(**values)
    except RecipeError:
        raise
    except ValueError as error:
        raise RecipeError(_located(path, str(error))) from error


def _of_kind(setting: Field[Any], value: Any, path: str) -> Any:
    """A block whose class goes by its key ``name``; by default it is that of the field."""
    if not isinstance(value, DictConfig):
        raise RecipeError(f"{path} is a block of keys; write {path}.name={value}")
    assert setting.default_factory is not ABSENT
    kinds, values = setting.metadata[KINDS](), {str(key): each for key, each in value.items()}
    default = setting.default_factory()
    name = values.get("name", default.name)
    if name not in kinds:
        raise RecipeError(
            f"{path}.name={name!r} is unknown{nearest(str(name), list(kinds))}; choose {', '.join(kinds)}"
        )
    defaults = to_dict(default) if name == default.name else {}
    return read(kinds[name].Config, {**defaults, **values, "name": name}, path)


def read(kind: type, values: Mapping[str, Any], path: str) -> Any:
    """A dataclass from a mapping, checked as a recipe is.

    Raises:
        RecipeError: a key is unknown, a type is wrong, or a value is refused.
    """
    try:
        composed = OmegaConf.merge(OmegaConf.structured(schema(kind)), dict(values))
    except OmegaConfBaseException as error:
        raise RecipeError(_located(path, explain(error))) from error
    assert isinstance(composed, DictConfig)
    return typed(composed, path)


def _value(hint: Any, value: Any, path: str) -> Any:
    if isinstance(value, DictConfig):
        if is_dataclass(OmegaConf.get_type(value)):
            return typed(value, path)
        return {str(key): _value(None, value[key], f"{path}.{key!s}") for key in value}
    if isinstance(value, ListConfig):
        return [_value(None, each, f"{path}[{place}]") for place, each in enumerate(value)]
    if isinstance(value, float) and isnan(value):
        raise RecipeError(f"{path}=nan is no number; give one, or leave the key out")
    known = _choices(hint)
    if not known or value is None:
        return value
    if value not in known:
        raise RecipeError(f"{path}={value!r} is unknown{nearest(value, list(known))}; choose {', '.join(known)}")
    return known[value]


def _choices(hint: Any) -> dict[str, Any]:
    """Values of an enumeration or a ``Literal``, by their text in a recipe."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {str(member.value): member for member in hint.__members__.values()}
    if get_origin(hint) is Literal:
        return {choice: choice for choice in get_args(hint)}
    return {text: choice for inner in get_args(hint) for text, choice in _choices(inner).items()}


def _located(path: str, message: str) -> str:
    """A message of a dataclass with the whole key: it may name its field, or its block and field."""
    block = path.rpartition(".")[2]
    if not path or message.startswith(f"{path}."):
        return message
    if message.startswith(f"{block}."):
        return f"{path}{message.removeprefix(block)}"
    return f"{path}.{message}"


def explain(error: OmegaConfBaseException) -> str:
    """The error of a recipe; for an unknown key with the keys there are."""
    if isinstance(error, ConfigKeyError | ConfigAttributeError) and is_dataclass(error.object_type):
        return _unknown(str(error.full_key), error.object_type)
    key, says = error.full_key, str(error).splitlines()[0]
    if not key:
        return says
    if meant := refused(says, key):
        return meant
    return f"{key} is a block of keys; write {key}.KEY=VALUE" if _BLOCK.match(says) else f"{key}: {says}"


def refused(says: str, key: str) -> str | None:
    """OmegaConf's message about a value of the wrong type, in plain words; None for another message."""
    if match := _REFUSED.match(says):
        return f"{key}={match[1]} is not {_MEANT[match[2]]}"
    if match := _NO_CHOICE.match(says):
        choices = dict.fromkeys(match[2].lower().split(", "))
        return f"{key}={match[1]} is unknown; choose {', '.join(choices)}"
    if match := _NO_LIST.fullmatch(says):
        return f"{key} is a list; write {key}=[ONE,ANOTHER]"
    return None


_REFUSED = re.compile(
    r"Value '(.*)' (?:of type '\w+' could not be converted to|is not a valid) (\w+)(?: \(type \w+\))?"
)
_MEANT = {
    "Integer": "a whole number",
    "Float": "a number",
    "bool": "true or false",
    "Boolean": "true or false",
    "Path": "a path",
}
_NO_LIST = re.compile(r"Invalid value assigned: \w+ is not a ListConfig, list or tuple\.?")
_NO_CHOICE = re.compile(r"Invalid value '(.*)', expected one of \[(.*)\]")
_BLOCK = re.compile(r"Invalid type assigned: \w+ is not a subclass|Cannot assign \w+ to Dict|Cannot merge DictConfig")
"""Of OmegaConf's messages."""


def _unknown(path: str, kind: Any) -> str:
    block, _, key = path.rpartition(".")
    if key in WORDS:
        return f"{path} is unknown; here: {WORDS[key]}"
    keys = [setting.name for setting in fields(kind) if setting.name != CHOSEN.get(block)]
    return f"{path} is unknown{nearest(key, keys)}; {kind.__name__} has {', '.join(keys) or 'no keys'}"


def nearest(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def to_dict(value: Any, *, operational: bool = True) -> Any:
    """A configuration in plain types, choices as text.

    Args:
        operational: with the keys that do not change what is learned.
    """
    if is_dataclass(value):
        return {
            setting.name: to_dict(getattr(value, setting.name), operational=operational)
            for setting in fields(value)
            if operational or not setting.metadata.get("operational")
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: to_dict(child, operational=operational) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [to_dict(child, operational=operational) for child in value]
    return value
