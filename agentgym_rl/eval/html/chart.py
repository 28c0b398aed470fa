"""Line charts as SVG elements: no library, no fixed colours, texts escaped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10

from agentgym_rl.eval.html.markup import Markup, tag

LEFT, RIGHT, TOP, BOTTOM = 46.0, 16.0, 10.0, 42.0
"""Margins around the plotting area."""
MOST = 150
"""Points a line is drawn with at most."""
Scale = Callable[[float], float]
"""From a value to a place in the drawing."""

DASHES = {"-": None, "--": "7 4", ":": "2 3", "-.": "7 3 2 3"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its band; every point says what it is."""

    label: str
    hue: str
    """A CSS colour."""
    x: Sequence[float]
    y: Sequence[float]
    says: Sequence[str]
    """What a reader who stops at a point is told."""
    band: tuple[Sequence[float], Sequence[float]] | None = None
    """Its lower and upper edge."""
    dashes: str = "-"
    stepped: bool = False
    """Each value holds until the next point."""
    hollow: bool = False
    """Hollow markers."""
    key: int = 0
    """Number that the page switches lines by."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from 0 to its end, with ticks at round numbers."""

    end: float
    ticks: tuple[float, ...]

    @classmethod
    def to(cls, highest: float, count: int = 5, whole: bool = False) -> Axis:
        """A scale that holds ``highest``, with about ``count`` ticks; at whole numbers only if ``whole``."""
        highest = highest if highest > 0 else 1.0
        size = 10 ** floor(log10(highest / count))
        step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor * count >= highest * 0.999)
        if whole:
            step = max(1.0, float(ceil(step)))
        ticks = tuple(step * place for place in range(floor(highest / step * 1.0001) + 1))
        return cls(max(highest, ticks[-1]), ticks)


def chart(lines: Sequence[Line], *, name: str, x_label: str, x: Axis, y: Axis, size: tuple[int, int]) -> Markup:
    """A chart whose points can be walked with the arrow keys by the page's script.

    Args:
        name: said by screen readers.
        size: width and height in units of the drawing.
    """
    width, height = size

    def across(value: float) -> float:
        return round(LEFT + (width - LEFT - RIGHT) * value / x.end, 1)

    def down(value: float) -> float:
        return round(height - BOTTOM - (height - TOP - BOTTOM) * value / y.end, 1)

    floor_, end = down(0), width - RIGHT
    grid = [
        [
            tag("line", x1=LEFT, x2=end, y1=down(tick), y2=down(tick), class_="grid"),
            tag("text", short(tick), x=LEFT - 8, y=down(tick) + 4, text_anchor="end"),
        ]
        for tick in y.ticks
    ]
    ticks = [tag("text", short(tick), x=across(tick), y=floor_ + 18, text_anchor="middle") for tick in x.ticks]
    label = tag("text", x_label, x=(LEFT + end) / 2, y=height - 6, text_anchor="middle")
    drawn = [_line(line, across, down) for line in lines]
    return tag(
        "svg", tag("g", grid, ticks, label, aria_hidden="true"), drawn, viewBox=f"0 0 {width} {height}",
        class_="chart", tabindex=0, role="img", aria_label=f"{name}, by {x_label}; arrow keys walk the points",
    )  # fmt: skip


def short(value: float) -> str:
    """``1.5M``, ``2k``, ``150``, ``0.25``."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.0f}" if value == int(value) else f"{value:.3g}"


def thinned(count: int, most: int = MOST) -> list[int]:
    """Places of at most ``most`` of ``count`` points, evenly spaced, first and last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})


def _line(line: Line, across: Scale, down: Scale) -> Markup:
    chosen = thinned(len(line.x))
    xs = [across(line.x[place]) for place in chosen]

    def path(values: Sequence[float]) -> list[tuple[float, float]]:
        points = [(x, down(values[place])) for x, place in zip(xs, chosen, strict=True)]
        if not line.stepped:
            return points
        corners = [(after[0], point[1]) for point, after in pairwise(points)]
        return [one for pair in zip(points, corners, strict=False) for one in pair] + points[-1:]

    band = None
    if line.band is not None and len(xs) > 1:
        low, high = line.band
        band = tag("polygon", points=_points([*path(high), *reversed(path(low))]), class_="band")
    middle = path(line.y)
    drawn = tag("polyline", points=_points(middle), class_="line", stroke_dasharray=DASHES[line.dashes])
    dots = [
        tag("circle", cx=x, cy=down(line.y[place]), r=3, data_says=line.says[place],
            class_="hollow" if line.hollow else None)
        for x, place in zip(xs, chosen, strict=True)
    ]  # fmt: skip
    crowded = " crowded" if len(xs) > 30 else ""
    return tag(
        "g", band, drawn, dots, class_=f"series{crowded}", style=f"--hue:{line.hue}", data_key=line.key,
        data_label=line.label,
    )  # fmt: skip


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in places)
