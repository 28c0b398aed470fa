"""Tables that fill the sheets: types of records, and random draws of them."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from agentgym_rl.envs.tables import load
from agentgym_rl.envs.tooluse.sheet.formula import Value


@dataclass(frozen=True, slots=True)
class TableType:
    """Columns of a type of table, in this order: a name, two columns of labels, numbers."""

    key: str
    names: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]
    numbers: dict[str, tuple[float, ...]]
    """Smallest, largest and step of each column of numbers."""
    summed: tuple[str, ...] = ()
    """Columns of numbers whose sum over a record means something."""
    factors: tuple[str, ...] | None = None
    """Two columns whose product means something."""
    lowered: str | None = None
    """A column of numbers that may get smaller."""
    raised: str | None = None
    """A column of numbers that may rise by some percent."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The file ``tables.toml``."""

    remarks: tuple[str, ...]
    types: tuple[TableType, ...]


TABLES = load(Path(__file__).with_name("tables.toml"), Tables)


@dataclass(frozen=True, slots=True)
class Table:
    """A header and records, all of one width."""

    header: list[str]
    records: list[list[Value]]

    @property
    def rows(self) -> list[list[Value]]:
        """Header and records."""
        return [list(self.header), *self.records]

    def column(self, title: str) -> list[Value]:
        at = self.header.index(title)
        return [record[at] for record in self.records]


def draw(kind: TableType, rng: Random, least: int = 4, most: int = 7) -> Table:
    """Records with different names. The numbers of a column differ, too."""
    count = rng.randint(least, most)
    columns: list[list[Value]] = [list(rng.sample(kind.names, count))]
    columns += [[rng.choice(choices) for _ in range(count)] for choices in kind.labels.values()]
    for low, high, step in kind.numbers.values():
        steps = rng.sample(range(round((high - low) / step) + 1), count)
        columns.append([float(round(low + step * each, 2)) for each in steps])
    header = [kind.key, *kind.labels, *kind.numbers]
    return Table(header, [list(record) for record in zip(*columns, strict=True)])


def number(kind: TableType, column: str, rng: Random) -> float:
    """A number that a column can hold."""
    low, high, step = kind.numbers[column]
    return float(round(low + step * rng.randrange(round((high - low) / step) + 1), 2))
