"""The subjects of the built-in databases (``domains.toml``) and the names in them (``names.toml``)."""

import re
from dataclasses import dataclass
from pathlib import Path
from random import Random

from agentgym_rl.envs.tables import load


@dataclass(frozen=True, slots=True)
class Category:
    """A text column with few values."""

    column: str
    plural: str
    values: tuple[str, ...]

    @property
    def phrase(self) -> str:
        """The column in a question."""
        return self.column


@dataclass(frozen=True, slots=True)
class Number:
    """An integer column."""

    column: str
    phrase: str
    """The column in a question."""
    low: int
    high: int
    adds: bool = True
    """Whether a total makes sense; of years of birth it does not."""


@dataclass(frozen=True, slots=True)
class Entity:
    """One table: an ``id``, a unique name, categories, numbers and, except in the first table, the row's parent."""

    table: str
    plural: str
    name: str
    """The column of the name, which is also the word for it."""
    kind: str
    """Kind of the names, see :func:`invent_name`."""
    categories: tuple[Category, ...]
    numbers: tuple[Number, ...]
    link: str = ""
    """How a row belongs to its parent: books `written by` an author."""

    @property
    def names(self) -> str:
        """The word for the names."""
        return f"{self.name}s"

    @property
    def heading(self) -> str:
        """The plural at the beginning of a sentence."""
        return self.plural.capitalize()

    def __post_init__(self) -> None:
        if self.kind not in _NAMES.kinds:
            raise ValueError(f"kind {self.kind!r} is unknown; the kinds of names are {', '.join(_NAMES.kinds)}")


@dataclass(frozen=True, slots=True)
class Domain:
    """A chain of three tables: each row of the second and third has a parent in the table before."""

    name: str
    entities: tuple[Entity, ...]

    def __post_init__(self) -> None:
        if len(self.entities) != 3:
            raise ValueError(f"{self.name} has {len(self.entities)} entities; a domain has 3")


@dataclass(frozen=True, slots=True)
class _Domains:
    domains: tuple[Domain, ...]


@dataclass(frozen=True, slots=True)
class _Names:
    kinds: dict[str, str]
    """Pattern of the names of each kind."""
    words: dict[str, tuple[str, ...]]
    """The values of each word of a pattern."""


_FOLDER = Path(__file__).parent
_NAMES = load(_FOLDER / "names.toml", _Names)
_WORDS = {**_NAMES.words, "number": tuple(str(number) for number in range(100, 1000))}
DOMAINS = load(_FOLDER / "domains.toml", _Domains).domains


def invent_name(kind: str, rng: Random) -> str:
    """A random name of a kind: ``person``, ``title``, ``place``, ``firm`` or ``code``."""
    return re.sub(r"{(\w+)}", lambda word: rng.choice(_WORDS[word[1]]), _NAMES.kinds[kind])
