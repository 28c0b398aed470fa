"""What the built-in databases are about.

Each domain is a chain of three tables: a row belongs to one of the table above. Phrases are those of the questions: a
question speaks of ``the number of pages of the books written by the author "X"``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Category:
    """A text column with few values."""

    column: str
    phrase: str
    plural: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """An integer column."""

    column: str
    phrase: str
    low: int
    high: int
    adds: bool = True
    """Whether a total makes sense; of years of birth it does not."""


@dataclass(frozen=True, slots=True)
class Entity:
    """One table: an ``id``, a name no other row has, categories, numbers and, but for the first, its row above."""

    table: str
    plural: str
    name: str
    """The column of the name, which is also the word for it."""
    kind: str
    """Of names; see :data:`agentgym_rl.envs.sqlgym.names.NAMES`."""
    categories: tuple[Category, ...]
    numbers: tuple[Number, ...]
    link: str = ""
    """How it belongs to the row above: books `written by` an author."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Three tables."""

    name: str
    entities: tuple[Entity, Entity, Entity]


def _category(column: str, values: str, plural: str = "", phrase: str = "") -> Category:
    return Category(column, phrase or column, plural or f"{column}s", tuple(values.split()))


DOMAINS = (
    Domain(
        "library",
        (
            Entity(
                "author",
                "authors",
                "name",
                "person",
                (_category("country", "Brazil Egypt India Japan Norway Poland", "countries"),),
                (Number("born", "year of birth", 1920, 1995, adds=False),),
            ),
            Entity(
                "book",
                "books",
                "title",
                "title",
                (_category("genre", "crime fantasy history poetry travel"),),
                (Number("pages", "number of pages", 60, 900), Number("price", "price", 5, 60)),
                "written by",
            ),
            Entity(
                "review",
                "reviews",
                "code",
                "code",
                (_category("language", "English French Hindi Spanish"),),
                (Number("words", "number of words", 40, 990), Number("rating", "rating", 1, 10, adds=False)),
                "of",
            ),
        ),
    ),
    Domain(
        "education",
        (
            Entity(
                "town",
                "towns",
                "name",
                "place",
                (_category("region", "coast highlands north plains"),),
                (Number("population", "population", 4_000, 90_000),),
            ),
            Entity(
                "school",
                "schools",
                "name",
                "title",
                (_category("type", "evening primary secondary vocational"),),
                (Number("rooms", "number of rooms", 6, 60), Number("founded", "year of foundation", 1850, 2015, False)),
                "in",
            ),
            Entity(
                "pupil",
                "pupils",
                "name",
                "person",
                (_category("club", "chess choir drama football robotics"),),
                (Number("score", "score", 10, 100, adds=False), Number("absences", "number of absences", 0, 40)),
                "at",
            ),
        ),
    ),
    Domain(
        "shop",
        (
            Entity(
                "supplier",
                "suppliers",
                "name",
                "firm",
                (_category("country", "Canada China Germany Kenya Mexico", "countries"),),
                (Number("rating", "rating", 10, 99, adds=False),),
            ),
            Entity(
                "product",
                "products",
                "name",
                "title",
                (_category("category", "clothes food furniture tools toys", "categories"),),
                (Number("price", "price", 2, 400), Number("stock", "stock", 0, 500)),
                "from",
            ),
            Entity(
                "purchase",
                "purchases",
                "code",
                "code",
                (_category("status", "open paid returned shipped", "statuses"),),
                (Number("quantity", "quantity", 1, 60), Number("discount", "discount", 0, 50, adds=False)),
                "of",
            ),
        ),
    ),
    Domain(
        "animals",
        (
            Entity(
                "zoo",
                "zoos",
                "name",
                "place",
                (_category("country", "Australia Chile France Japan", "countries"),),
                (Number("visitors", "number of visitors", 1_000, 90_000),),
            ),
            Entity(
                "enclosure",
                "enclosures",
                "name",
                "title",
                (_category("climate", "desert forest polar savanna wetland"),),
                (Number("area", "area", 20, 2_000), Number("cost", "cost of upkeep", 100, 9_000)),
                "in",
            ),
            Entity(
                "animal",
                "animals",
                "name",
                "person",
                (_category("species", "bear crane lizard monkey otter wolf", "species"),),
                (Number("weight", "weight", 1, 400), Number("age", "age", 1, 40, adds=False)),
                "in",
            ),
        ),
    ),
    Domain(
        "flights",
        (
            Entity(
                "airline",
                "airlines",
                "name",
                "firm",
                (_category("alliance", "Azure Comet Orbit"),),
                (Number("aircraft", "number of aircraft", 5, 300),),
            ),
            Entity(
                "flight",
                "flights",
                "number",
                "code",
                (_category("destination", "Accra Cairo Lima Lisbon Oslo Tokyo"),),
                (Number("minutes", "duration in minutes", 45, 800), Number("seats", "number of seats", 40, 400)),
                "of",
            ),
            Entity(
                "passenger",
                "passengers",
                "name",
                "person",
                (_category("cabin", "business economy first"),),
                (Number("bags", "number of bags", 0, 6), Number("fare", "fare", 50, 1_500)),
                "on",
            ),
        ),
    ),
    Domain(
        "hospitals",
        (
            Entity(
                "hospital",
                "hospitals",
                "name",
                "place",
                (_category("owner", "church city private state"),),
                (Number("beds", "number of beds", 40, 1_200),),
            ),
            Entity(
                "doctor",
                "doctors",
                "name",
                "person",
                (_category("specialty", "children heart lungs skin surgery", "specialties"),),
                (Number("experience", "years of experience", 1, 40), Number("salary", "salary", 3_000, 19_000)),
                "at",
            ),
            Entity(
                "patient",
                "patients",
                "name",
                "person",
                (_category("ward", "east north south west"),),
                (Number("nights", "number of nights", 1, 30), Number("age", "age", 1, 95, adds=False)),
                "treated by",
            ),
        ),
    ),
    Domain(
        "sports",
        (
            Entity(
                "league",
                "leagues",
                "name",
                "title",
                (_category("sport", "basketball football handball hockey"),),
                (Number("prize", "prize money", 1_000, 90_000),),
            ),
            Entity(
                "team",
                "teams",
                "name",
                "place",
                (_category("colour", "black blue green red yellow"),),
                (Number("points", "number of points", 1, 99), Number("fans", "number of fans", 100, 9_000)),
                "in",
            ),
            Entity(
                "player",
                "players",
                "name",
                "person",
                (_category("position", "attack defence goal midfield"),),
                (Number("goals", "number of goals", 0, 40), Number("height", "height", 150, 210, adds=False)),
                "of",
            ),
        ),
    ),
    Domain(
        "museums",
        (
            Entity(
                "museum",
                "museums",
                "name",
                "place",
                (_category("theme", "art nature science ships"),),
                (Number("visitors", "number of visitors", 500, 80_000),),
            ),
            Entity(
                "hall",
                "halls",
                "name",
                "title",
                (_category("light", "candle daylight lamp"),),
                (Number("area", "area", 30, 900), Number("guards", "number of guards", 1, 12)),
                "of",
            ),
            Entity(
                "exhibit",
                "exhibits",
                "label",
                "code",
                (_category("material", "bone bronze clay glass wood"),),
                (Number("weight", "weight", 1, 700), Number("value", "value", 100, 9_900)),
                "in",
            ),
        ),
    ),
    Domain(
        "farming",
        (
            Entity(
                "farm",
                "farms",
                "name",
                "title",
                (_category("county", "Ardley Brent Colm Dunmore", "counties"),),
                (Number("workers", "number of workers", 2, 60),),
            ),
            Entity(
                "plot",
                "plots",
                "code",
                "code",
                (_category("crop", "barley beans maize potatoes wheat"),),
                (Number("area", "area", 1, 90), Number("distance", "distance to water", 10, 2_000, adds=False)),
                "of",
            ),
            Entity(
                "harvest",
                "harvests",
                "code",
                "code",
                (_category("season", "autumn spring summer"),),
                (Number("yield", "yield in tonnes", 1, 300), Number("days", "number of days", 1, 30)),
                "from",
            ),
        ),
    ),
    Domain(
        "business",
        (
            Entity(
                "company",
                "companies",
                "name",
                "firm",
                (_category("sector", "energy media retail transport"),),
                (Number("founded", "year of foundation", 1890, 2020, adds=False),),
            ),
            Entity(
                "department",
                "departments",
                "code",
                "code",
                (_category("task", "finance research sales support"),),
                (Number("budget", "budget", 10, 990), Number("floor", "floor", 1, 20, adds=False)),
                "of",
            ),
            Entity(
                "employee",
                "employees",
                "name",
                "person",
                (_category("job", "analyst clerk engineer manager writer"),),
                (Number("salary", "salary", 2_000, 12_000), Number("holidays", "number of holidays", 20, 40)),
                "in",
            ),
        ),
    ),
)
