"""The reward of a purchase, as in WebShop (Yao et al. 2022, arXiv:2207.01206, section 3)."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rapidfuzz.fuzz import token_set_ratio
from rapidfuzz.utils import default_process

from agentgym_rl.envs.tables import load
from agentgym_rl.envs.webshop.nouns import nouns
from agentgym_rl.envs.webshop.product import Goal, Product

ALIKE = 85
"""Texts are alike whose ``token_set_ratio``, rounded to a whole number, is greater than this."""
COLOURS: tuple[str, ...] = load(Path(__file__).with_name("colours.toml"), dict[str, tuple[str, ...]])["colours"]
"""WebShop's names of colours, in its order."""
_LATIN = dict.fromkeys(range(128, 256))
"""Letters that are left out before texts are compared, as thefuzz does."""


def reward(bought: Product, options: Collection[str], goal: Goal) -> tuple[float, dict[str, Any]]:
    """The reward in [0, 1] of buying a product with these values of its options, and its parts.

    It is ``r_type * (attributes + options + [price <= cap]) / (wanted attributes + wanted options + 1)``, where
    ``attributes`` and ``options`` count those that are wanted and there. The parts: ``r_type``, and the shares
    ``r_att``, ``r_option`` (None where no option is wanted) and ``r_price``.
    """
    attributes = sum(has_attribute(bought, attribute) for attribute in goal.attributes)
    chosen = [_colour(option) for option in options]
    hits = sum(any(_alike(option, _colour(wanted)) for option in chosen) for wanted in goal.options)
    affordable = bought.price <= goal.cap
    kind = r_type(bought, goal.product)
    total = kind * (attributes + hits + affordable) / (len(goal.attributes) + len(goal.options) + 1)
    return total, {
        "r_type": kind,
        "r_att": attributes / len(goal.attributes),
        "r_option": hits / len(goal.options) if goal.options else None,
        "r_price": float(affordable),
    }


def r_type(bought: Product, wanted: Product) -> float:
    """How far two products are of the same kind: 1, 0.5, 0.1 or 0."""
    score = title_score(bought.title, wanted.title)
    if score < 0.1:
        return 0.1 if score else 0.0
    shared = _categories(bought) & _categories(wanted)
    return 1.0 if bought.query == wanted.query or len(shared) >= 2 or score > 0.2 else 0.5


def title_score(bought: str, wanted: str) -> float:
    """The share of the wanted title's nouns that the bought one has, too; 0.2 where the wanted one has none."""
    named = nouns(wanted)
    return len(set(nouns(bought)) & set(named)) / len(named) if named else 0.2


def has_attribute(product: Product, attribute: str) -> bool:
    """Whether an attribute is like one of the product's, or its texts have it literally."""
    if any(_alike(listed, attribute) for listed in product.attributes):
        return True
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(attribute in text.lower() for text in texts)


def options_chosen(goal: Goal, offered: Mapping[str, tuple[str, ...]]) -> list[str]:
    """For each wanted option the first value on offer that satisfies it."""
    values = [value for choices in offered.values() for value in choices]
    hits = (next((value for value in values if _alike(_colour(value), _colour(want))), None) for want in goal.options)
    return [value for value in hits if value is not None]


def _alike(value: object, other: object) -> bool:
    return round(token_set_ratio(_processed(value), _processed(other))) > ALIKE


def _processed(text: object) -> str:
    return default_process(str(text).translate(_LATIN))


def _colour(option: str | tuple[str, str]) -> object:
    """The first colour that is in a text, or that equals a part of a pair; where there is none, the option itself."""
    return next((colour for colour in COLOURS if colour in option), option)


def _categories(product: Product) -> set[str]:
    return {part.strip() for part in product.category.split("\u203a")}
