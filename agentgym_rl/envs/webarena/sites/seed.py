"""The contents of the sites, drawn from ``words.toml``: the same in every process."""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from random import Random

from agentgym_rl.envs.tables import load
from agentgym_rl.envs.webarena.sites.tracker import LABELS, NOBODY

SEED = "webarena 0"
PASSWORD = "{0}.1234"
"""Of every user, with the name."""
FIRST = 101
"""The first number of products, posts and issues; so no number is the beginning of another one."""
USER, MAINTAINER = "mia", "noa"
"""Who is logged in, unless a task has the maintainer of every second project of the tracker."""
ORDERS = 120
"""The first half are the user's."""
TOWNS = 64


_WORDS = load(Path(__file__).with_name("words.toml"), dict[str, dict[str, tuple[str, ...]]])
_PEOPLE = _WORDS["people"]["names"]


@cache
def frozen() -> bytes:
    """The database as ``sqlite3.Connection.deserialize`` takes it; each visit has a copy."""
    db = sqlite3.connect(":memory:")
    db.executescript(Path(__file__).with_name("schema.sql").read_text(encoding="utf-8"))
    for table, rows in (*_people(), *_shop(), *_forum(), *_wiki(), *_tracker()):
        filled = list(rows)
        db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(filled[0]))})", filled)
    db.commit()
    return db.serialize()


Rows = Iterable[Sequence[object]]


def _people() -> Iterable[tuple[str, Rows]]:
    towns = [town for town, *_ in _towns()]
    names = [USER, MAINTAINER, *_PEOPLE]
    sites = ("shopping", "reddit", "wikipedia", "gitlab")
    yield (
        "users",
        [
            (site, name, PASSWORD.format(name), f"{name.capitalize()} {last}", town)
            for site in sites
            for name, last, town in zip(names, (_WORDS["wiki"]["last_names"] * 2), towns, strict=False)
        ],
    )


def _shop() -> Iterable[tuple[str, Rows]]:
    rng, words = Random(f"{SEED}:shop"), _WORDS["shop"]
    nouns = [(category, noun) for category, names in _WORDS["categories"].items() for noun in names]
    products = [
        (number, " ".join([rng.choice(words["brands"]), rng.choice(words["kinds"]), noun]), category,
         rng.randint(300, 19_999), rng.randint(2, 80), rng.choice(words["descriptions"]))
        for number, (category, noun) in enumerate(nouns, start=FIRST)
    ]  # fmt: skip
    yield "products", products
    yield (
        "reviews (product, author, stars, text)",
        [
            (number, author, stars, text)
            for number, *_ in products
            for author, stars, text in zip(
                rng.sample(_PEOPLE, 3), rng.sample(range(1, 6), 3), rng.sample(words["reviews"], 3), strict=True
            )
        ],
    )
    buyers = [USER] * (ORDERS // 2) + [rng.choice(_PEOPLE) for _ in range(ORDERS // 2)]
    statuses = [words["statuses"][number % len(words["statuses"])] for number in range(ORDERS)]
    orders = [
        (1000 + number, buyer, f"2024-05-{number % 28 + 1:02}", status, "Ashford")
        for number, (buyer, status) in enumerate(zip(buyers, statuses, strict=True))
    ]
    yield "orders", orders
    yield (
        "order_lines",
        [
            (order, product[0], rng.randint(1, 3), product[3])
            for order, *_ in orders
            for product in rng.sample(products, rng.randint(1, 3))
        ],
    )


def _forum() -> Iterable[tuple[str, Rows]]:
    rng, words = Random(f"{SEED}:forum"), _WORDS["forum"]
    yield "forums", [(name, f"All about {name}.") for name in words["forums"]]
    votes = rng.sample(range(2, 400), len(words["forums"]) * len(words["titles"]))
    posts = [
        (number, forum, rng.choice(_PEOPLE), title.format(forum), rng.choice(words["bodies"]), votes[number - FIRST],
         f"2024-04-{rng.randint(1, 30):02}")
        for number, (forum, title) in enumerate(product(words["forums"], words["titles"]), start=FIRST)
    ]  # fmt: skip
    yield "posts", posts
    yield (
        "comments (post, author, body)",
        [
            (post, author, text)
            for post, *_ in posts
            for author, text in zip(
                rng.sample(_PEOPLE, rng.randint(1, 5)), rng.sample(words["comments"], 7), strict=False
            )
        ],
    )


@cache
def _towns() -> list[tuple[str, str, int, int, str, str, str, str]]:
    rng, words = Random(f"{SEED}:wiki"), _WORDS["wiki"]
    names = rng.sample([a + b for a, b in product(words["starts"], words["ends"])], TOWNS)
    mayors = rng.sample([f"{a} {b}" for a, b in product(words["first_names"], words["last_names"])], TOWNS)
    towns = []
    for number, (name, mayor) in enumerate(zip(names, mayors, strict=True)):
        region, river, known = (
            words["regions"][number % len(words["regions"])],
            rng.choice(words["rivers"]),
            rng.choice(words["known_for"]),
        )
        text = f"{name} is a town in {region}, on the {river}. It is known for {known}."
        towns.append((name, region, rng.randint(800, 90_000), 1100 + rng.randint(0, 800), river, mayor, known, text))
    return towns


def _wiki() -> Iterable[tuple[str, Rows]]:
    yield "articles (title, region, population, founded, river, mayor, known_for, body)", _towns()


def _tracker() -> Iterable[tuple[str, Rows]]:
    rng, words = Random(f"{SEED}:tracker"), _WORDS["tracker"]
    yield (
        "projects",
        [
            (name, about, MAINTAINER if number % 2 == 0 else _PEOPLE[number])
            for number, (name, about) in enumerate(zip(words["projects"], words["abouts"], strict=True))
        ],
    )
    titles = rng.sample(
        [f"{part} {fault}" for part, fault in product(words["parts"], words["faults"])], 12 * len(words["projects"])
    )
    issues = [
        (number, words["projects"][number % len(words["projects"])], title, rng.choice(words["bodies"]),
         rng.choice(_PEOPLE), rng.choice((NOBODY, *_PEOPLE[:6])), rng.choice(LABELS),
         "closed" if rng.random() < 0.2 else "open", f"2024-03-{rng.randint(1, 31):02}")
        for number, title in enumerate(titles, start=FIRST)
    ]  # fmt: skip
    yield "issues", issues
    yield (
        "notes (issue, author, body)",
        [
            (issue, rng.choice(_PEOPLE), text)
            for issue, *_ in issues
            for text in rng.sample(words["notes"], rng.randint(0, 3))
        ],
    )
