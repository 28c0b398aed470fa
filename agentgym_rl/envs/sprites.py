"""Small drawings as data: lists of shapes in an environment's TOML files, drawn where its pictures need them."""

import re
from typing import Any

from agentgym_rl.envs.picture import Shape, shade, shape

Sprite = tuple[dict[str, Any], ...]
"""``shape`` names an SVG element, the other keys are its attributes. A number in place of a colour is a shade of the
sprite's own colour, see :func:`~agentgym_rl.envs.picture.shade`; all commands of a path ``d`` are relative."""

_NUMBER = re.compile(r"-?[\d.]+")


def placed(sprite: Sprite, colour: str, x: float, y: float, scale: float = 1) -> list[Shape]:
    """The shapes of a sprite whose own origin lies at a place; ``colour`` is ``#rrggbb``."""

    def value(key: str, raw: Any) -> Any:
        match key:
            case "fill" | "stroke":
                return raw if isinstance(raw, str) else shade(colour, raw)
            case "d":
                scaled = _NUMBER.sub(lambda number: f"{float(number[0]) * scale:g}", raw)
                return f"M{x:g} {y:g}{scaled}"
            case "x" | "cx" | "x1" | "x2":
                return x + round(raw * scale, 2)
            case "y" | "cy" | "y1" | "y2":
                return y + round(raw * scale, 2)
            case "shape" | "fill-opacity":
                return raw
        return round(raw * scale, 2)

    drawn = [{key: value(key, raw) for key, raw in part.items()} for part in sprite]
    return [shape(part.pop("shape"), **part) for part in drawn]
