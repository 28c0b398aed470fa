"""Small pictures of Minecraft's items: a shape by what an item is, a colour by what it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from agentgym_rl.envs.picture import Shape, shade, shape
from agentgym_rl.envs.tables import load

ICON = 26
"""Side of a picture, in its own units."""

_OTHERS = ("#8f7a3e", "#5a7fa8", "#7d4f73", "#3b8183", "#c0504d", "#6b8f4e")

Form = Callable[[str, float, float], list[Shape]]


@dataclass(frozen=True)
class Icons:
    """The file ``icons.toml``."""

    colours: dict[str, str]
    forms: dict[str, str]


_FILE = load(Path(__file__).with_name("icons.toml"), Icons)


def colour(name: str) -> str:
    """By the first word that names a material; else a fixed one of a few."""
    found = next((_FILE.colours[word] for word in name.split() if word in _FILE.colours), None)
    return found or _OTHERS[crc32(name.encode()) % len(_OTHERS)]


def icon(name: str, x: float, y: float) -> list[Shape]:
    """Shapes of an item in a square of side :data:`ICON` at a place."""
    words = set(name.split())
    form = next((form for form, wanted in FORMS if words & wanted), _block)
    return form(colour(name), x, y)


def _polygon(fill: str, x: float, y: float, *points: tuple[float, float]) -> Shape:
    return shape("path", d="M" + "L".join(f"{x + dx:g} {y + dy:g}" for dx, dy in points) + "Z", fill=fill)


def _cube(fill: str, x: float, y: float, top: float) -> list[Shape]:
    """A block whose upper face has its middle at a height; the lower, the flatter."""
    return [
        _polygon(shade(fill, 1.25), x, y, (13, top - 6), (24, top), (13, top + 6), (2, top)),
        _polygon(shade(fill, 0.9), x, y, (2, top), (13, top + 6), (13, 26), (2, 20)),
        _polygon(shade(fill, 0.7), x, y, (13, top + 6), (24, top), (24, 20), (13, 26)),
    ]


def _block(fill: str, x: float, y: float) -> list[Shape]:
    return _cube(fill, x, y, 7)


def _flat(fill: str, x: float, y: float) -> list[Shape]:
    return _cube(fill, x, y, 15)


def _planks(fill: str, x: float, y: float) -> list[Shape]:
    board = [
        shape("rect", x=x + 2, y=y + 3 + 7 * row, width=22, height=6, rx=1, fill=shade(fill, 1.12 - 0.1 * row))
        for row in range(3)
    ]
    seams = [(14, 3), (8, 10), (17, 17)]
    return board + [shape("rect", x=x + dx, y=y + dy, width=1, height=6, fill=shade(fill, 0.6)) for dx, dy in seams]


def _log(fill: str, x: float, y: float) -> list[Shape]:
    return [
        shape("rect", x=x + 4, y=y + 6, width=18, height=18, rx=2, fill=shade(fill, 0.6)),
        shape("ellipse", cx=x + 13, cy=y + 7, rx=9, ry=5, fill=shade(fill, 1.25)),
        shape("ellipse", cx=x + 13, cy=y + 7, rx=5, ry=2.6, fill=shade(fill, 0.95)),
        *(shape("rect", x=x + dx, y=y + 13, width=1.2, height=9, fill=shade(fill, 0.45)) for dx in (8, 13, 18)),
    ]


def _rod(fill: str, x: float, y: float) -> list[Shape]:
    return [
        shape("line", x1=x + 5, y1=y + 21, x2=x + 21, y2=y + 5, stroke=shade(fill, 0.6), stroke_width=5),
        shape("line", x1=x + 5, y1=y + 21, x2=x + 21, y2=y + 5, stroke=shade(fill, 1.1), stroke_width=2.6),
    ]


def _tool(fill: str, x: float, y: float) -> list[Shape]:
    return [
        *_rod("#96703f", x, y),
        shape(
            "path", d=f"M{x + 9} {y + 4}Q{x + 22} {y + 4} {x + 22} {y + 17}", fill="none", stroke=fill, stroke_width=5
        ),
    ]


def _ingot(fill: str, x: float, y: float) -> list[Shape]:
    return [
        _polygon(shade(fill, 1.3), x, y, (7, 9), (19, 9), (21, 14), (5, 14)),
        _polygon(shade(fill, 0.85), x, y, (5, 14), (21, 14), (24, 20), (2, 20)),
    ]


def _grains(fill: str, x: float, y: float) -> list[Shape]:
    places = [(8, 18, 5), (18, 18, 5), (13, 10, 5.5)]
    return [
        shape("circle", cx=x + dx, cy=y + dy, r=r, fill=shade(fill, 0.8 + 0.2 * number))
        for number, (dx, dy, r) in enumerate(places)
    ]


def _sheet(fill: str, x: float, y: float) -> list[Shape]:
    return [
        shape("rect", x=x + 5, y=y + 2, width=16, height=22, rx=1.5, fill=fill),
        *(shape("rect", x=x + 8, y=y + dy, width=10, height=1.4, fill=shade(fill, 0.6)) for dy in (7, 11, 15)),
    ]


def _pane(fill: str, x: float, y: float) -> list[Shape]:
    return [
        shape(
            "rect", x=x + 3, y=y + 3, width=20, height=20, rx=1, fill=fill, fill_opacity=0.55, stroke=shade(fill, 0.7)
        ),
        shape("line", x1=x + 8, y1=y + 16, x2=x + 16, y2=y + 8, stroke="#ffffff", stroke_width=1.8),
    ]


def _flower(fill: str, x: float, y: float) -> list[Shape]:
    petals = [(13, 5), (18, 9), (16, 14), (10, 14), (8, 9)]
    return [
        shape("line", x1=x + 13, y1=y + 12, x2=x + 13, y2=y + 25, stroke="#4f7f35", stroke_width=2.2),
        *(shape("circle", cx=x + dx, cy=y + dy, r=3.6, fill=fill) for dx, dy in petals),
        shape("circle", cx=x + 13, cy=y + 10, r=2.6, fill="#f4cf4a"),
    ]


def _door(fill: str, x: float, y: float) -> list[Shape]:
    return [
        shape("rect", x=x + 5, y=y + 1, width=16, height=24, rx=1, fill=shade(fill, 0.9)),
        *(
            shape("rect", x=x + dx, y=y + dy, width=5, height=8, fill=shade(fill, 0.65))
            for dx in (7.5, 13.5)
            for dy in (3.5, 14)
        ),
    ]


def _wool(fill: str, x: float, y: float) -> list[Shape]:
    waves = [f"M{x + 5} {y + dy}q4 -4 8 0t8 0" for dy in (9, 14, 19)]
    return [
        shape("rect", x=x + 2, y=y + 2, width=22, height=22, rx=6, fill=fill),
        *(shape("path", d=wave, fill="none", stroke=shade(fill, 0.78), stroke_width=1.4) for wave in waves),
    ]


_DRAWN: Mapping[str, Form] = {
    "planks": _planks,
    "flat": _flat,
    "log": _log,
    "tool": _tool,
    "rod": _rod,
    "ingot": _ingot,
    "grains": _grains,
    "pane": _pane,
    "sheet": _sheet,
    "flower": _flower,
    "door": _door,
    "wool": _wool,
}

FORMS = tuple((_DRAWN[name], frozenset(words.split())) for name, words in _FILE.forms.items())
"""The first whose words an item's name has one of; else a block."""
