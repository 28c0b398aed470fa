"""Tables that fill the sheets: kinds of records and random draws of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from agentgym_rl.envs.tooluse.sheet.formula import Value


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns of a kind of table, in this order: a name, two columns of labels, numbers."""

    key: str
    names: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]]
    numbers: Mapping[str, tuple[float, float, float]]
    """Smallest, largest and step of each column of numbers."""
    summed: tuple[str, ...]
    """Columns of numbers whose sum over a record means something."""
    factors: tuple[str, str] | None = None
    """Two columns whose product means something."""


SCHEMAS: tuple[Schema, ...] = (
    Schema(
        "Product",
        ("apple", "pear", "plum", "carrot", "leek", "onion", "butter", "cheese", "yogurt", "bread", "bagel", "muffin"),
        {"Supplier": ("Greenfield", "Millers", "Nordhof", "Valley"), "Location": ("Store A", "Store B", "Store C")},
        {"Price": (0.4, 15.0, 0.1), "Quantity": (5, 200, 1), "Rating": (3.0, 5.0, 0.1)},
        (),
        ("Price", "Quantity"),
    ),
    Schema(
        "Student",
        ("Alma", "Boris", "Carla", "Derek", "Edith", "Felix", "Gina", "Henry", "Isla", "Jakob", "Kira", "Lukas"),
        {"Class": ("1A", "1B", "1C"), "Club": ("Chess", "Choir", "Drama", "Robotics")},
        {"Math": (50, 99, 1), "English": (50, 99, 1), "Physics": (50, 99, 1)},
        ("Math", "English", "Physics"),
    ),
    Schema(
        "Task",
        (
            "Website Update", "Data Backup", "Client Visit", "Budget Review", "Poster Design", "Server Move",
            "Staff Survey", "Stock Count", "Press Event", "Safety Check", "Price Study", "Logo Refresh",
        ),
        {"Team": ("IT", "Marketing", "Finance", "Design"), "Status": ("Open", "Started", "Blocked", "Done")},
        {"Planned Hours": (2, 40, 1), "Extra Hours": (1, 15, 1), "Budget": (100, 5000, 50)},
        ("Planned Hours", "Extra Hours"),
    ),
    Schema(
        "Seller",
        ("Adams", "Baker", "Costa", "Dubois", "Evans", "Fischer", "Gomez", "Hansen", "Iqbal", "Jones", "Klein", "Lund"),
        {"Region": ("North", "South", "East", "West"), "Level": ("Junior", "Senior", "Lead")},
        {"Units": (10, 300, 1), "Unit Price": (2.0, 60.0, 0.5), "Returns": (0, 20, 1)},
        (),
        ("Units", "Unit Price"),
    ),
    Schema(
        "Employee",
        ("Amir", "Bella", "Cesar", "Dana", "Elias", "Freya", "Goran", "Hana", "Igor", "Julia", "Kofi", "Lena"),
        {"Department": ("Sales", "Support", "Research"), "City": ("Oslo", "Lyon", "Porto", "Graz")},
        {"Salary": (2000, 6000, 50), "Bonus": (100, 900, 10), "Years": (1, 30, 1)},
        ("Salary", "Bonus"),
    ),
    Schema(
        "Book",
        (
            "Blue Harbor", "Cold Tea", "Deep Roots", "Empty Chairs", "First Snow", "Glass Hill", "High Tide",
            "Iron Gate", "Late Train", "Moon Garden", "Paper Wings", "Quiet Road",
        ),
        {"Genre": ("Crime", "Poetry", "Travel", "History"), "Shelf": ("S1", "S2", "S3")},
        {"Pages": (90, 700, 10), "Price": (4.0, 40.0, 0.5), "Copies": (1, 60, 1)},
        (),
        ("Price", "Copies"),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """A header and records, all of one width."""

    schema: Schema
    header: list[str]
    records: list[list[Value]]

    @property
    def rows(self) -> list[list[Value]]:
        """Header and records, copied."""
        return [list(self.header), *map(list, self.records)]

    def column(self, title: str) -> list[Value]:
        at = self.header.index(title)
        return [record[at] for record in self.records]


def draw(schema: Schema, rng: Random, least: int = 4, most: int = 7) -> Table:
    """Records with different names; numbers of a column differ, too."""
    count = rng.randint(least, most)
    columns: list[list[Value]] = [list(rng.sample(schema.names, count))]
    columns += [[rng.choice(choices) for _ in range(count)] for choices in schema.labels.values()]
    for low, high, step in schema.numbers.values():
        steps = rng.sample(range(round((high - low) / step) + 1), count)
        columns.append([float(round(low + step * each, 2)) for each in steps])
    header = [schema.key, *schema.labels, *schema.numbers]
    return Table(schema, header, [list(record) for record in zip(*columns, strict=True)])


def number(schema: Schema, column: str, rng: Random) -> float:
    """Another number that a column could hold."""
    low, high, step = schema.numbers[column]
    return float(round(low + step * rng.randrange(round((high - low) / step) + 1), 2))
