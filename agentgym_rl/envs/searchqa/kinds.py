"""The kinds of things in the invented articles, how they relate, and the words for it (``kinds.toml``).

In all templates ``{x}`` is the thing, ``{y}`` the value of the relation, ``{s}`` a person's surname.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym_rl.envs.tables import load


@dataclass(frozen=True, slots=True)
class Relation:
    """A fact that an article states: one value for each thing."""

    name: str
    target: str
    """Kind of the value: a name of :data:`KINDS` or :data:`LITERALS`."""
    word: str
    """A word of every sentence below: what to search for."""
    question: str
    """Asks for the value of ``{x}``."""
    sentences: tuple[str, ...]
    phrase: str = ""
    """Stands for the value in a longer question; only where the value is a thing."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two things of a kind compared by a number."""

    relation: str
    more: str
    less: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of thing. The first relation opens the article."""

    name: str
    count: int
    """Number of things for each country."""
    titles: tuple[str, ...]
    """Title of the article from the invented name ``{x}``; one is drawn."""
    mention: str
    """A thing within a sentence."""
    relations: tuple[Relation, ...]
    comparisons: tuple[Comparison, ...] = ()
    pair: str = ""
    """Two things ``{a}`` and ``{b}`` within a sentence; only where there are comparisons."""

    def relation(self, name: str) -> Relation:
        """The relation of that name."""
        return next(relation for relation in self.relations if relation.name == name)


@dataclass(frozen=True, slots=True)
class NameParts:
    """Parts of invented names, in the order they follow each other; the vowels follow both onsets."""

    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    codas: tuple[str, ...]
    second_onsets: tuple[str, ...]
    endings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _File:
    names: NameParts
    literals: dict[str, tuple[str, ...]]
    kinds: tuple[Kind, ...]

    def __post_init__(self) -> None:
        targets = [*self.literals, *(kind.name for kind in self.kinds)]
        for kind in self.kinds:
            for relation in kind.relations:
                if relation.target not in targets:
                    raise ValueError(f"{kind.name} > {relation.name}: target {relation.target!r} is unknown")


_FILE = load(Path(__file__).with_suffix(".toml"), _File)
NAMES = _FILE.names
LITERALS: Mapping[str, tuple[str, ...]] = _FILE.literals
"""Values that are not things: how an answer may write them, the plainest first."""
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _FILE.kinds}
"""The kinds by name."""
