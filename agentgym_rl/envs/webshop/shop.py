"""A shop: its products, the tasks of its customers, its search, and one customer's visit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import Stemmer

from agentgym_rl.envs.bm25 import Index
from agentgym_rl.envs.core import OracleUnavailable
from agentgym_rl.envs.webshop import catalogue
from agentgym_rl.envs.webshop import page as pages
from agentgym_rl.envs.webshop.product import Goal, Product
from agentgym_rl.envs.webshop.reward import options_chosen, reward

RESULTS = 50
"""Most products that a search finds."""
LONGEST_ACTION = 1_000
"""Characters of an action that are read."""

BM25: Mapping[str, Any] = {"method": "lucene", "k1": 0.9, "b": 0.4}
"""Settings of the index: those of WebShop's search engine (Pyserini)."""
_WORD = re.compile("\\w+(?:[.'\u2019]\\w+)*")
_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with"
)
"""Lucene's, for English."""
_STOP = frozenset(_STOP_WORDS.split())
_BUTTONS = {name.lower(): name for name in (pages.BUY, pages.BACK, pages.NEXT, pages.PREVIOUS, *pages.SUB_PAGES)}
_STEM: Callable[[str], str] = lru_cache(maxsize=1 << 18)(Stemmer.Stemmer("porter", 0).stemWord)


def words(text: str) -> list[str]:
    """The words of a text as they are searched for: without possessive endings and stop words, by Porter's stems."""
    tokens = (word.removesuffix("'s").removesuffix("\u2019s") for word in _WORD.findall(text.lower()))
    return [_STEM(word) for word in tokens if word not in _STOP]


@dataclass(frozen=True)
class Shop:
    """A shop. Sessions share it: it does not change."""

    products: Sequence[Product]
    index: Index
    """Over the products' :attr:`~.product.Product.contents`."""
    goals: Callable[[int], Goal]
    """The goal of a task by its index; raises TaskNotFound."""
    splits: Mapping[str, range]
    threaded: bool = False
    """Whether a search takes so long that other episodes should not wait for it."""

    def visit(self, goal: Goal) -> Visit:
        """A customer's visit, at the first page."""
        return Visit(self, goal)

    def oracle(self, goal: Goal) -> list[str]:
        """Search for the title, turn to the product's page of results, choose the wanted options and buy.

        Raises:
            OracleUnavailable: the search does not find it, or buying it does not earn 1.
        """
        product, query = goal.product, plain(goal.product.title)
        asins = [self.products[number].asin for number in self.index.best(query, RESULTS)]
        if product.asin not in asins:
            raise OracleUnavailable(f"{product.asin} is not among the first {RESULTS} results for its title")
        turns = asins.index(product.asin) // pages.PER_PAGE
        clicks = [*[pages.NEXT] * turns, product.asin, *options_chosen(goal, product.options), pages.BUY]
        actions = [f"search[{query}]", *(f"click[{click.lower()}]" for click in clicks)]
        visit = self.visit(goal)
        if not all(map(visit.act, actions)) or visit.score is None or visit.score < 1:
            raise OracleUnavailable(f"buying {product.asin} itself does not earn 1")
        return actions


def built_in() -> Shop:
    """The shop with the products of :mod:`.catalogue`."""
    products = catalogue.products()
    index = Index.over((product.contents for product in products), split=words, **BM25)
    return Shop(products, index, catalogue.goal, catalogue.SPLITS)


def plain(text: str) -> str:
    """A text as an action may hold it: in lower case, without brackets, on one line."""
    return " ".join(re.sub(r"[\[\]]", " ", text.lower()).split())


class Visit:
    """One customer's visit."""

    page: pages.Page
    """What the customer sees."""
    results: list[int]
    """Numbers of the products that the last search found."""
    number: int
    """Of the page of results, from 1; 0 before a search."""
    product: Product | None
    options: dict[str, str]
    """The chosen values."""
    in_sub_page: bool
    score: float | None = None
    """The reward, once something was bought."""
    parts: Mapping[str, Any] = MappingProxyType({})
    """Of the reward."""

    def __init__(self, shop: Shop, goal: Goal) -> None:
        self.shop, self.goal = shop, goal
        self._start()

    @property
    def actions(self) -> tuple[str, ...]:
        """What can be clicked on, and a search for the instruction's words where there is a search bar."""
        if self.score is not None:
            return ()
        search = [f"search[{plain(self.goal.instruction)}]"] if self.page.can_search else []
        clicks = (f"click[{value}]" for value in self.page.clickable)
        return (*search, *(click for click in clicks if parse(click)[0]))

    def act(self, action: str) -> bool:
        """Carry out ``search[words]`` or ``click[value]``; false where the page does not allow it."""
        kind, value = parse(action[:LONGEST_ACTION])
        if kind == "search":
            self._search(value)
            return True
        target = self.page.target(value) if kind == "click" else None
        if target is None:
            return False
        self._click(target)
        return True

    def _search(self, query: str) -> None:
        self.results = self.shop.index.best(query, RESULTS)
        self._turn_to(1)

    def _click(self, value: str) -> None:
        """Buttons go before options of the same text."""
        match _BUTTONS.get(value), self.product:
            case pages.BACK, _:
                self._start()
            case pages.NEXT, None:
                self._turn_to(self.number + 1)
            case pages.PREVIOUS, None:
                self._turn_to(self.number - 1)
            case pages.PREVIOUS, _ if not self.in_sub_page:
                self._turn_to(self.number)
            case pages.BUY, Product() as product:
                self.score, self.parts = reward(product, self.options.values(), self.goal)
                self.page = pages.done_page(product.asin, self.options, self.score)
            case str(name), Product() as product if name in pages.SUB_PAGES:
                self.in_sub_page = True
                self.page = pages.sub_page(self.goal.instruction, product, name)
            case _:
                self._choose(self.page.clickable[value])

    def _choose(self, clicked: pages.Element) -> None:
        """A product of the results, or an option of the product; on a sub-page, the way back to the product."""
        if clicked.kind == "link":
            self.product = next(product for product in self._shown() if product.asin == clicked.text)
        elif clicked.kind == "option":
            self.options[clicked.name] = clicked.text
        assert self.product is not None
        self.in_sub_page = False
        self.page = pages.item_page(self.goal.instruction, self.product, self.options)

    def _turn_to(self, number: int) -> None:
        """A page of results; the product and its options are forgotten."""
        self.number, self.product, self.options, self.in_sub_page = number, None, {}, False
        self.page = pages.results_page(self.goal.instruction, number, len(self.results), self._shown())

    def _start(self) -> None:
        self.results, self.number, self.product, self.options, self.in_sub_page = [], 0, None, {}, False
        self.page = pages.search_page(self.goal.instruction)

    def _shown(self) -> list[Product]:
        """The products of the present page of results."""
        first = pages.PER_PAGE * (self.number - 1)
        return [self.shop.products[at] for at in self.results[first : first + pages.PER_PAGE]]


def parse(action: str) -> tuple[str, str]:
    """The kind of an action and its value in lower case; two empty texts where it has not the form ``kind[value]``.

    As WebShop's ``(.+)\\[(.+)\\]`` reads it, in linear time: one line, the value between the last pair of brackets that
    has something in it, whatever follows.
    """
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 0))
    return (line[:start], line[start + 1 : end].lower()) if start > 0 else ("", "")
