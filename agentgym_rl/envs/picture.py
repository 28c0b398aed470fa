"""Pictures of an episode for the viewer, in plain data: a few flat SVG shapes, which the page draws one by one."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Shape = tuple[str, tuple[tuple[str, str | float], ...]]
"""Name of an SVG element and its attributes; ``text`` is the content of a text element."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """An episode as an environment needs it to draw it, see :meth:`agentgym_rl.envs.core.TextEnv.pictures`."""

    item_id: str
    first: str
    """The first observation."""
    turns: tuple[tuple[str | None, str], ...]
    """The action (None where the response held none) and the observation of each turn."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing of an environment's state. The viewer's ``page/style.css`` says how each ``class`` of a shape looks."""

    label: str
    """The same in words, for a screen reader."""
    width: float
    height: float
    shapes: tuple[Shape, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        shapes = [[name, dict(attributes)] for name, attributes in self.shapes]
        return {"label": self.label, "width": self.width, "height": self.height, "shapes": shapes}


def complete(pictures: Iterable[Picture | None], transcript: Transcript) -> list[Picture | None]:
    """One picture for the start and one for each turn of an episode; None for those that are missing at its end."""
    places = len(transcript.turns) + 1
    return [*pictures, *[None] * places][:places]


def shape(name: str, **attributes: str | float) -> Shape:
    """An element; ``class_`` stands for ``class``, other underscores for hyphens."""
    return name, tuple((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())


def shade(colour: str, factor: float) -> str:
    """A ``#rrggbb`` colour, darker below 1 and lighter above."""
    parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    mixed = [part * factor if factor <= 1 else 255 - (255 - part) * (2 - factor) for part in parts]
    return "#" + "".join(f"{max(0, min(255, round(part))):02x}" for part in mixed)
