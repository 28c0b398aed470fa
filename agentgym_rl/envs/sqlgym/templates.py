"""Questions and their queries from the templates of ``templates.toml``.

A template's ``draws`` name what is drawn, in order, and so what its texts and queries can refer to:

* ``entity``: a table, ``{child}``; ``pair``: also the table of its parents, ``{parent}``; ``chain``: all three tables,
  ``{child}``, ``{parent}`` and ``{top}``. ``{joined}`` is child and parent joined.
* ``category``: a category of the child, ``{category}``, and one of its values, ``{value}``.
* ``number``: a number column; ``total``: one that can be added up; both ``{number}``. ``column``: any, ``{column}``.
* ``bound``: a value to compare ``{number}`` with, not near the ends of its range.
* ``name``: one of the child's names, ``{name}``. ``least``: a small number, ``{least}``.
* The name of a list of ``choices``: one of them, ``{choice}``.

``category of parent`` and the like draw from another table than the child.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from agentgym_rl.envs.sqlgym.database import Database
from agentgym_rl.envs.sqlgym.domains import Domain, Entity, Number
from agentgym_rl.envs.tables import load

Values = dict[str, Any]
"""What the placeholders of a template stand for."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A word of a question and what it means in SQL."""

    word: str
    sql: str
    order: str = ""
    adds: bool = False
    """Whether a number drawn afterwards must be one that can be added up."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A question in several wordings, its query, and checks that the question has one answer."""

    texts: tuple[str, ...]
    sql: str
    agree: tuple[str, ...] = ()
    """Queries of other readings, which have the same answer."""
    differ: tuple[str, ...] = ()
    """Queries with another answer, such as the same without its condition."""

    def filled(self, values: Values) -> Draft:
        """This draft with the values in place of its placeholders."""

        def fill(texts: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(text.format_map(values) for text in texts)

        return Draft(fill(self.texts), self.sql.format_map(values), fill(self.agree), fill(self.differ))


@dataclass(frozen=True, slots=True)
class Template(Draft):
    """A draft with placeholders."""

    draws: tuple[str, ...] = ()
    parts: dict[str, str] = field(default_factory=dict)
    """Pieces that several queries use, by name."""
    share: float = 1.0
    """Probability of this draft; else :attr:`otherwise` is used."""
    otherwise: Draft | None = None

    def draft(self, draw: Draw) -> Draft:
        """A question of this kind."""
        values: Values = {}
        for step in self.draws:
            values |= draw.values(step, values)
        form = self if self.otherwise is None or draw.rng.random() < self.share else self.otherwise
        for name, part in self.parts.items():
            values[name] = part.format_map(values)
        return form.filled(values)


@dataclass(frozen=True, slots=True)
class Draw:
    """Random choices from a domain and a database of it."""

    domain: Domain
    data: Database
    rng: Random

    def values(self, step: str, known: Values) -> Values:
        """The values that one of a template's ``draws`` adds to those known."""
        what, _, table = step.partition(" of ")
        if what in CHOICES:
            choice = self.rng.choice(CHOICES[what])
            return {"choice": replace(choice, word=choice.word.format_map(known), sql=choice.sql.format_map(known))}
        return _DRAWS[what](self, known, known.get(table or "child"))


def _pair(draw: Draw, known: Values, entity: Any) -> Values:
    place = draw.rng.choice((1, 2))
    return _joined(draw.domain.entities[place], draw.domain.entities[place - 1])


def _chain(draw: Draw, known: Values, entity: Any) -> Values:
    top, middle, bottom = draw.domain.entities
    return {"top": top, **_joined(bottom, middle)}


def _joined(child: Entity, parent: Entity) -> Values:
    joined = f"{child.table} JOIN {parent.table} ON {child.table}.{parent.table}_id = {parent.table}.id"
    return {"child": child, "parent": parent, "joined": joined}


def _category(draw: Draw, known: Values, entity: Entity) -> Values:
    category = draw.rng.choice(entity.categories)
    return {"category": category, "value": draw.rng.choice(category.values)}


def _number(draw: Draw, known: Values, entity: Entity) -> Values:
    adds = "choice" in known and known["choice"].adds
    return {"number": draw.rng.choice([number for number in entity.numbers if number.adds or not adds])}


def _bound(draw: Draw, known: Values, entity: Entity) -> Values:
    number: Number = known["number"]
    fifth = (number.high - number.low) // 5
    return {"bound": draw.rng.randint(number.low + fifth, number.high - fifth)}


_DRAWS: Mapping[str, Callable[[Draw, Values, Any], Values]] = {
    "entity": lambda draw, known, entity: {"child": draw.rng.choice(draw.domain.entities)},
    "pair": _pair,
    "chain": _chain,
    "category": _category,
    "number": _number,
    "total": lambda draw, known, entity: {"number": draw.rng.choice([each for each in entity.numbers if each.adds])},
    "column": lambda draw, known, entity: {"column": draw.rng.choice([*entity.categories, *entity.numbers])},
    "bound": _bound,
    "name": lambda draw, known, entity: {"name": draw.rng.choice(draw.data.names[entity.table])},
    "least": lambda draw, known, entity: {"least": draw.rng.randint(2, 6)},
}


@dataclass(frozen=True, slots=True)
class _File:
    choices: dict[str, tuple[Choice, ...]]
    templates: dict[str, tuple[Template, ...]]

    def __post_init__(self) -> None:
        known = [*_DRAWS, *self.choices]
        for difficulty, templates in self.templates.items():
            for place, template in enumerate(templates):
                for draw in template.draws:
                    if draw.partition(" of ")[0] not in known:
                        raise ValueError(f"{difficulty} > {place}: draw {draw!r} is none of {', '.join(known)}")


_FILE = load(Path(__file__).with_suffix(".toml"), _File)
CHOICES = _FILE.choices
TEMPLATES: Mapping[str, tuple[Template, ...]] = _FILE.templates
"""Templates by difficulty."""
