"""A chart as data: pages draw it with ``chart.js``, pictures with :mod:`agentgym_rl.eval.png`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Line:
    """A line over one or more axes; every point can say what it is."""

    label: str
    colour: str
    """Of the palette."""
    x: Mapping[str, Sequence[float]]
    """Places of the points by axis; a line is left out on an axis that it does not have."""
    y: Sequence[float]
    says: Sequence[str] = ()
    """What a reader is told at each point; where it is empty, a page says label, value and place."""
    band: tuple[Sequence[float], Sequence[float]] | None = None
    """Its lower and upper edge."""
    dashes: str = "-"
    stepped: bool = False
    """Each value holds until the next point."""
    hollow: bool = False
    """Its markers are hollow."""
    filled: bool = False
    """The band is an area, without a line or markers."""
    whiskers: bool = False
    """The band is drawn as an error bar at each point."""
    loose: bool = False
    """No line joins its points."""
    faint: bool = False
    """In the background: the values behind a smoothed line."""
    thin: bool = False
    """A thin line without markers; in pictures only."""
    key: int | str = -1
    """Number by which the page hides lines."""


def spaced(count: int, most: int) -> list[int]:
    """The places of so many points that are drawn: both ends and, evenly between them, at most ``most`` in all."""
    return [*range(count)] if count <= most else [round(place * (count - 1) / (most - 1)) for place in range(most)]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over the same axes."""

    name: str
    axes: Mapping[str, str]
    """Labels of the x axes."""
    lines: Sequence[Line]
    top: float
    """End of the y axis."""
    whole: bool = False
    """Ticks of the y axis are whole numbers."""
    width: int = 1120
    height: int = 360
    y_label: str = ""
    names: Sequence[str] = ()
    """Names of the places 0, 1, ... of the x axis, instead of numbers."""
    bottom: float = 0.0
    """Start of the y axis, at most 0."""
    references: Mapping[str, float] = field(default_factory=dict)
    """Heights of lines across the chart, by name."""
