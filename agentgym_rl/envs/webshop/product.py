"""What a shop sells and what a customer wants."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

CAPS = [10.0 * tens for tens in range(1, 100)]
"""The prices, in dollars, that an instruction may set as a limit."""
NO_CAP = 1_000_000.0
"""The limit of a goal whose product costs too much for two of :data:`CAPS` to lie above."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product, with the texts of its pages."""

    asin: str
    """Ten capital letters and digits."""
    title: str
    description: str
    bullets: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    """The values of each option, all in lower case."""
    attributes: tuple[str, ...]
    """What the reward knows of the product. No page shows them as such."""
    price: float
    """In dollars."""
    price_tag: str
    query: str
    """The search that the product belongs to."""
    category: str
    """A path of names with U+203A between them."""

    @property
    def contents(self) -> str:
        """The text that searches look in."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        return f"{self.title} {self.description} {self.bullets[0] if self.bullets else ''} {options}".lower()


@dataclass(frozen=True, slots=True)
class Goal:
    """What the customer is told to buy."""

    product: Product
    """A product that fits."""
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str | tuple[str, str], ...]
    """The values of options that are wanted. Those of WebShop's synthetic goals are pairs with the option's name."""
    cap: float
    """The highest price, in dollars."""

    @property
    def wishes(self) -> int:
        """How many attributes, options and price limits are asked for."""
        return len(self.attributes) + len(self.options) + (self.cap < NO_CAP)


def price_cap(price: float, rng: Random) -> float:
    """The price limit of a goal: the larger of two drawn from the four :data:`CAPS` next above the price.

    WebShop draws it without a seed.
    """
    above = [cap for cap in CAPS if cap > price][:4]
    return max(rng.sample(above, 2)) if len(above) > 1 else NO_CAP


def price_wish(cap: float) -> str:
    """The end of an instruction."""
    return f", and price lower than {cap:.2f} dollars" if cap < NO_CAP else ""
