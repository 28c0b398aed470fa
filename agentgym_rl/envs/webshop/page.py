"""The pages of the shop: what is on them in order, and what that is as text.

:mod:`.html` makes HTML of the same pages.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal

from agentgym_rl.envs.webshop.product import Product

BUY, BACK, NEXT, PREVIOUS, SEARCH = "Buy Now", "Back to Search", "Next >", "< Prev", "Search"
SUB_PAGES = ("Description", "Features", "Reviews")
PER_PAGE = 10

Kind = Literal["title", "label", "wish", "text", "button", "link", "name", "option", "hidden"]
"""``label`` and ``wish`` are the instruction, ``name`` is that of the options after it, ``hidden`` is what no browser
shows."""


@dataclass(frozen=True, slots=True)
class Element:
    """A piece of a page."""

    kind: Kind
    text: str
    name: str = ""
    """Of an option: its name."""
    chosen: bool = False
    """Of an option: whether it is chosen."""

    @property
    def shown(self) -> str | None:
        """The text as WebShop's parser of HTML leaves it; None for an empty line, which it drops."""
        if not self.text or (self.text.isspace() and "\n" in self.text):
            return None
        return self.text.strip()


@dataclass(frozen=True)
class Page:
    """A page of the shop."""

    elements: tuple[Element, ...]

    @cached_property
    def text(self) -> str:
        """WebShop's observation in text mode."""
        return " [SEP] ".join(shown for element in self.elements if (shown := element.shown) is not None)

    @cached_property
    def compact(self) -> str:
        """The same in fewer tokens: what is hidden and, but for the first page, the instruction are left out."""
        parts: list[str] = []
        for element in self.elements:
            if element.kind in ("label", "hidden") or (element.kind == "wish" and not self.can_search):
                continue
            text = squeezed(element.text)
            if element.kind in ("button", "link", "option"):
                text = f"({text})" if element.chosen else f"[{text}]"
            parts += ["\n" if element.kind in ("title", "link", "name") and parts else " ", text]
        return "".join(parts).strip()

    @property
    def can_search(self) -> bool:
        """Whether there is a search bar."""
        return any(element.kind == "button" and element.text == SEARCH for element in self.elements)

    @cached_property
    def clickable(self) -> Mapping[str, Element]:
        """What can be clicked on, by its text in lower case. Of equal texts the last one counts, options last."""
        pressed = {element.text.lower(): element for element in self.elements if element.kind in ("button", "link")}
        by_text = pressed | {element.text: element for element in self.elements if element.kind == "option"}
        by_text.pop(SEARCH.lower(), None)
        return by_text

    def target(self, text: str) -> str | None:
        """What of :attr:`clickable` a text means, as either wording of the page shows it; None where nothing."""
        if text in self.clickable:
            return text
        return {squeezed(key): key for key in self.clickable}.get(text)


def squeezed(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())


def search_page(wish: str) -> Page:
    """The first page."""
    title = Element("title", "WebShop")
    return Page((title, *_instruction(wish), Element("button", SEARCH)))


def results_page(wish: str, number: int, total: int, products: Iterable[Product]) -> Page:
    """The results of a search, from ``(number - 1) * PER_PAGE`` on."""
    turn = (PREVIOUS, NEXT) if number > 1 else (NEXT,)
    head = Element("title", f"Page {number} (Total results: {total})")
    rows = (
        (Element("link", product.asin), Element("text", product.title), Element("text", product.price_tag))
        for product in products
    )
    return Page((*_head(wish), head, *_buttons(turn), *chain.from_iterable(rows)))


def item_page(wish: str, product: Product, chosen: Mapping[str, str]) -> Page:
    """A product with its options."""
    options: list[Element] = []
    for name, values in product.options.items():
        options.append(Element("name", name))
        options += (Element("option", value, name, chosen.get(name) == value) for value in values)
    facts = (Element("text", f"Price: {product.price_tag}"), Element("text", "Rating: N.A."))
    head = _head(wish, PREVIOUS)
    return Page((*head, *options, Element("title", product.title), *facts, *_buttons((*SUB_PAGES, BUY))))


def sub_page(wish: str, product: Product, name: str) -> Page:
    """One of :data:`SUB_PAGES`. There are no reviews, as in WebShop."""
    texts: Sequence[str] = ()
    if name == "Description":
        texts = (product.description,)
    elif name == "Features":
        texts = tuple(f" {bullet}" for bullet in product.bullets)
    return Page((*_head(wish, PREVIOUS), *(Element("text", text) for text in texts)))


def done_page(asin: str, chosen: Mapping[str, str], reward: float) -> Page:
    """The page after a purchase. Its lists are empty in WebShop, too."""
    options = json.dumps(dict(chosen), sort_keys=True)
    for letter in "<>&'":
        options = options.replace(letter, f"\\u{ord(letter):04x}")
    bought = ("asin", asin, "options", options, "attrs", "None", "category", "None", "query", "None")
    target = ("asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query")
    code = ("Your code:", "None", "(Paste it in your MTurk interface.)")
    hidden = (*code, "Purchased", *bought, "product category", "None", "Target", *target, "Goal", "None", "Reward")
    return Page(
        (
            Element("title", "Thank you for shopping with us!"),
            *(Element("hidden", text) for text in hidden),
            Element("text", "Your score (min 0.0, max 1.0)"),
            Element("text", str(reward)),
            *(Element("hidden", text) for text in ("Reward Details", "None")),
        )
    )


def _instruction(wish: str) -> tuple[Element, Element]:
    return Element("label", "Instruction:"), Element("wish", wish)


def _head(wish: str, *buttons: str) -> tuple[Element, ...]:
    return (*_instruction(wish), *_buttons((BACK, *buttons)))


def _buttons(texts: Iterable[str]) -> Iterable[Element]:
    return (Element("button", text) for text in texts)
