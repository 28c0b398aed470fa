"""The rows of the built-in databases, drawn by domain and version number."""

import hashlib
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from agentgym_rl.envs.sqlgym.domains import DOMAINS, Entity, invent_name

SIZES = (range(6, 10), range(16, 25), range(40, 56))
"""Numbers of rows that the first, second and third table of a domain may have."""


@dataclass(frozen=True, slots=True)
class Database:
    """A built-in database."""

    version: str
    """Its number and the start of the SHA-256 of its rows."""
    names: Mapping[str, tuple[str, ...]]
    """The names in each table."""
    image: bytes
    """The database as SQLite serializes it."""


@lru_cache(maxsize=512)
def database(domain: int, version: int) -> Database:
    """Fill the tables of a domain (a position in :data:`DOMAINS`)."""
    subject = DOMAINS[domain]
    rng = Random(f"sqlgym 0:{subject.name}:{version}")
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA page_size = 1024")
    names: dict[str, tuple[str, ...]] = {}
    digest = hashlib.sha256()
    parent: Entity | None = None
    for entity, sizes in zip(subject.entities, SIZES, strict=True):
        connection.execute(_create(entity, parent))
        parents = range(1, 1 + len(names[parent.table])) if parent else range(0)
        rows = _rows(entity, rng.choice(sizes), list(parents), rng)
        connection.executemany(f"INSERT INTO {entity.table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        names[entity.table] = tuple(str(row[1]) for row in rows)
        digest.update(repr(rows).encode())
        parent = entity
    connection.commit()
    image = connection.serialize()
    connection.close()
    return Database(f"{version}-{digest.hexdigest()[:8]}", names, image)


def _create(entity: Entity, parent: Entity | None) -> str:
    columns = ["id INTEGER PRIMARY KEY", f"{entity.name} TEXT"]
    columns += [f"{category.column} TEXT" for category in entity.categories]
    columns += [f"{number.column} INTEGER" for number in entity.numbers]
    if parent is not None:
        columns.append(f"{parent.table}_id INTEGER REFERENCES {parent.table} (id)")
    return f"CREATE TABLE {entity.table} ({', '.join(columns)})"


def _rows(entity: Entity, size: int, parents: list[int], rng: Random) -> list[tuple[object, ...]]:
    """Rows of a table; some of the parents have none."""
    used = rng.sample(parents, max(1, len(parents) - rng.randint(1, 3))) if parents else []
    names: dict[str, None] = {}
    while len(names) < size:
        names[invent_name(entity.kind, rng)] = None
    return [
        (
            number,
            name,
            *(rng.choice(category.values) for category in entity.categories),
            *(rng.randint(each.low, each.high) for each in entity.numbers),
            *([rng.choice(used)] if used else []),
        )
        for number, name in enumerate(names, start=1)
    ]
