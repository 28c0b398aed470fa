"""A question before it is asked, and the random choices it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from agentgym_rl.envs.sqlgym.database import Database
from agentgym_rl.envs.sqlgym.domains import Category, Domain, Entity, Number


@dataclass(frozen=True, slots=True)
class Draft:
    """A question in several wordings, its query, and checks that the words leave one answer."""

    texts: tuple[str, ...]
    sql: str
    agree: tuple[str, ...] = ()
    """Queries of other readings, with the same answer: all rows with the highest value where one is asked for."""
    differ: tuple[str, ...] = ()
    """Queries with another answer: the same without its condition."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Random choices from a domain and a database of it."""

    domain: Domain
    data: Database
    rng: Random

    def entity(self) -> Entity:
        return self.rng.choice(self.domain.entities)

    def pair(self) -> tuple[Entity, Entity]:
        """A table and the one above."""
        place = self.rng.choice((1, 2))
        return self.domain.entities[place], self.domain.entities[place - 1]

    def category(self, entity: Entity) -> tuple[Category, str]:
        """A category and one of its values."""
        category = self.rng.choice(entity.categories)
        return category, self.rng.choice(category.values)

    def column(self, entity: Entity) -> Category | Number:
        """A category or a number column."""
        columns: list[Category | Number] = [*entity.categories, *entity.numbers]
        return self.rng.choice(columns)

    def number(self, entity: Entity, adds: bool = False) -> Number:
        """A number column; only one that can be added up where ``adds``. Every table has one, but for some topmost."""
        return self.rng.choice([number for number in entity.numbers if number.adds or not adds])

    def bound(self, number: Number) -> int:
        """A value to compare with, away from the ends of the range."""
        span = number.high - number.low
        return self.rng.randint(number.low + span // 5, number.high - span // 5)

    def name(self, entity: Entity) -> str:
        return self.rng.choice(self.data.names[entity.table])

    def extreme(self) -> tuple[str, str, str]:
        """Word, sort order and aggregate of the highest or the lowest."""
        return self.rng.choice((("highest", "DESC", "MAX"), ("lowest", "ASC", "MIN")))


def names(entity: Entity) -> str:
    """The word for its names."""
    return f"{entity.name}s"


def joined(child: Entity, parent: Entity) -> str:
    """The two tables in SQL, each row beside the one above."""
    return f"{child.table} JOIN {parent.table} ON {child.table}.{parent.table}_id = {parent.table}.id"
