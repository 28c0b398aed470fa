"""Small pictures of Minecraft's items: a shape by what an item is, a colour by what it is made of."""

from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from agentgym_rl.envs.picture import Shape
from agentgym_rl.envs.sprites import Sprite, placed
from agentgym_rl.envs.tables import load

ICON = 26
"""Side of a picture, in its own units."""


@dataclass(frozen=True)
class Form:
    """A shape, and the words of the items that have it."""

    words: str
    shapes: Sprite


@dataclass(frozen=True)
class Icons:
    """The file ``icons.toml``."""

    others: tuple[str, ...]
    block: Sprite
    colours: dict[str, str]
    forms: dict[str, Form]


_FILE = load(Path(__file__).with_name("icons.toml"), Icons)

FORMS = tuple((form.shapes, frozenset(form.words.split())) for form in _FILE.forms.values())
"""The first whose words an item's name has one of; else a block."""


def colour(name: str) -> str:
    """By the first word that names a material; else a fixed one of a few."""
    known = next((_FILE.colours[word] for word in name.split() if word in _FILE.colours), None)
    return known or _FILE.others[crc32(name.encode()) % len(_FILE.others)]


def icon(name: str, x: float, y: float) -> list[Shape]:
    """Shapes of an item in a square of side :data:`ICON` at a place."""
    words = set(name.split())
    form = next((form for form, keywords in FORMS if words & keywords), _FILE.block)
    return placed(form, colour(name), x, y)
