"""The built-in products and goals, drawn from ``catalogue.toml``.

Products come in families of four that look alike, so that a goal's product has near misses: one lacks two of its
attributes, one has another value of an option, one costs more than any limit that the goal may set. A family belongs to
one split and so does an instruction. Everything is a function of :data:`SEED` and of indices.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from random import Random

from agentgym_rl.envs.splits import Splits, fingerprint
from agentgym_rl.envs.tables import load
from agentgym_rl.envs.webshop.product import Goal, Product, price_cap, price_wish

SEED = "webshop 0"
FAMILIES = 40
"""Of each category."""

SHARES = {"train": range(7), "validation": range(7, 8), "test": range(8, 10)}
"""The last digits, of a family's number and of an instruction's fingerprint, that belong to each split."""
SPLITS = Splits(
    "webshop", {"train": range(200, 4130), "validation": range(4130, 4330), "test": range(200)}, shares=SHARES
)
"""The indices of ``train`` and ``test`` are those that AgentGym uses, for goals of its own."""

WISHES = range(4, 8)
"""How many attributes, options and price limits a goal asks for."""


@dataclass(frozen=True)
class _Category:
    query: str
    path: str
    nouns: tuple[str, ...]
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    price: tuple[int, ...]
    """The lowest and the highest."""
    use: str


@dataclass(frozen=True)
class _Texts:
    brand_starts: tuple[str, ...]
    brand_ends: tuple[str, ...]
    lines: tuple[str, ...]
    bullets: tuple[str, ...]
    descriptions: tuple[str, ...]
    wishes: tuple[str, ...]
    categories: tuple[_Category, ...]


TEXTS = load(Path(__file__).with_name("catalogue.toml"), _Texts)


@cache
def families() -> tuple[tuple[Product, ...], ...]:
    """All families, the categories in turn."""
    return tuple(_family(number) for number in range(FAMILIES * len(TEXTS.categories)))


def products() -> list[Product]:
    """All products, in random order."""
    made = [product for family in families() for product in family]
    Random(f"{SEED}:order").shuffle(made)
    return made


@lru_cache(maxsize=4096)
def goal(index: int) -> Goal:
    """The goal of a task: one to three attributes and all options of a product, and a price limit.

    Raises:
        TaskNotFound: there is no such task.
    """
    split, place = SPLITS.locate(index)
    split_families = _families_of(split)
    rng = Random(f"{SEED}:goal:{index}")
    while True:
        drawn = _goal(rng.choice(split_families[place % len(split_families)]), rng)
        if _owns(split, drawn):
            return drawn


@cache
def sold_in(split: str) -> Collection[str]:
    """The products that goals of a split may want, by their ids."""
    return {product.asin for family in _families_of(split) for product in family}


def goal_of(product: Product, options: Mapping[str, str], split: str) -> Goal:
    """A goal of a split that asks for these values of a product's options."""
    chosen = {name: options[name] for name in product.options if name in options}
    rng = Random(f"{SEED}:goal of:{product.asin}:{chosen}")
    while True:
        drawn = _goal(product, rng, chosen)
        if _owns(split, drawn):
            return drawn


def goals_worded(instruction: str, split: str) -> Iterator[Goal]:
    """The goals of :func:`goal_of` with this instruction, and the values of options that it names."""
    for product in (product for family in _families_of(split) for product in family if product.query in instruction):
        pairs = [(name, value) for name, values in product.options.items() for value in values]
        worded = {name: value for name, value in pairs if f"{name}: {value}, " in instruction}
        candidate = goal_of(product, worded, split)
        if candidate.instruction == instruction:
            yield candidate


def _owns(split: str, goal: Goal) -> bool:
    return SPLITS.owns(split, fingerprint(goal.instruction, 8))


@cache
def _wishes() -> Mapping[str, Sequence[int]]:
    """How many things each goal of each split asks for."""
    return {split: [goal(index).wishes for index in indices] for split, indices in SPLITS.items()}


def of_wishes(wishes: int) -> Mapping[str, Sequence[int]]:
    """:data:`SPLITS` with the goals that ask for so many things.

    Raises:
        ValueError: none does.
    """
    if wishes not in WISHES:
        raise ValueError(f"wishes={wishes} is not between {WISHES[0]} and {WISHES[-1]}, as built-in goals ask for")
    return {
        split: tuple(index for index, count in zip(indices, _wishes()[split], strict=True) if count == wishes)
        for split, indices in SPLITS.items()
    }


def _goal(product: Product, rng: Random, chosen: Mapping[str, str] | None = None) -> Goal:
    """One to three attributes, all options where none are chosen, and a price limit."""
    attributes = tuple(rng.sample(product.attributes, rng.randint(1, 3)))
    if chosen is None:
        chosen = {name: rng.choice(values) for name, values in product.options.items()}
    wish = rng.choice(TEXTS.wishes).format(attributes=", ".join(attributes), query=product.query)
    options = ", and ".join(f"{name}: {value}" for name, value in chosen.items())
    cap = price_cap(product.price, Random(f"{product.asin}\t{wish}"))
    text = f"{wish}{' with ' if options else ''}{options}{price_wish(cap)}"
    return Goal(product, text, attributes, tuple(chosen.values()), cap)


@cache
def _families_of(split: str) -> list[tuple[Product, ...]]:
    return [family for number, family in enumerate(families()) if number // len(TEXTS.categories) % 10 in SHARES[split]]


def _family(number: int) -> tuple[Product, ...]:
    """A product, and one that lacks two attributes, one with another value of an option, and one too dear."""
    rng = Random(f"{SEED}:family:{number}")
    category = TEXTS.categories[number % len(TEXTS.categories)]
    name = rng.choice(TEXTS.brand_starts) + rng.choice(TEXTS.brand_ends), rng.choice(TEXTS.lines)
    *shared, foreign, unrelated = rng.sample(category.attributes, 6)
    absent = {option: rng.choice(values) for option, values in category.options.items()}
    options = {option: tuple(v for v in values if v != absent[option]) for option, values in category.options.items()}
    option = rng.choice(list(options))
    others = options | {option: (absent[option], *options[option][1:])}
    price = rng.randint(*category.price) + rng.choice((0.0, 0.49, 0.95, 0.99))
    dearer = price + rng.randint(45, 80)
    lacking = [*shared[:2], foreign, unrelated]
    kinds = ((shared, options, price), (lacking, options, price), (shared, others, price), (shared, options, dearer))
    return tuple(_product(f"{number}:{at}", category, name, rng, *kind) for at, kind in enumerate(kinds))


def _product(
    key: str,
    category: _Category,
    name: tuple[str, str],
    rng: Random,
    attributes: list[str],
    options: dict[str, tuple[str, ...]],
    price: float,
) -> Product:
    brand, line = name
    first, second, *rest = rng.sample(attributes, len(attributes))
    words = {"brand": brand, "line": line, "use": category.use, "query": category.query}
    bullets = rng.sample(TEXTS.bullets, len(attributes))
    return Product(
        asin="B0" + fingerprint(f"{SEED}:{key}", 8).upper(),
        title=f"{brand} {line} {rng.choice(category.nouns)}, {first.title()}, {second.title()}",
        description=rng.choice(TEXTS.descriptions).format(**words, attributes=", ".join(rest)),
        bullets=tuple(
            bullet.format(a=trait.capitalize(), brand=brand) for bullet, trait in zip(bullets, attributes, strict=True)
        ),
        options=options,
        attributes=tuple(attributes),
        price=price,
        price_tag=f"${price}",
        query=category.query,
        category=category.path,
    )
