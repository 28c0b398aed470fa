"""The page's own files: markup, style and script. No other file is needed to show it."""

from __future__ import annotations

from importlib.resources import files

from agentgym_rl.eval.html.palette import ARMS, DARK, GRID, INK, MUTED, SURFACE, WORLDS

CHUNK = 50
"""Episodes of one script of an exported folder."""
SCRIPTS = ("dom", "data", "filters", "list", "overview", "latency", "episode", "task", "app")
_BLUE, _VERMILION, _GREEN, _PINK, _GOLD, _SKY = ARMS
_NAMES = {
    "ink": INK, "muted": MUTED, "grid": GRID, "blue": _BLUE, "bad": _VERMILION, "good": _GREEN, "pink": _PINK,
    "gold": _GOLD, "sky": _SKY, "warm": _VERMILION, **{f"w{number}": colour for number, colour in enumerate(WORLDS)},
}  # fmt: skip
_LIGHT = {"surface": SURFACE, "raised": SURFACE, "quiet": "#f4f4f1", **_NAMES}
_DARK = {"surface": "#17171a", "raised": "#1e1e22", "quiet": "#232328", **{n: DARK[c] for n, c in _NAMES.items()}}


def page(source: str) -> str:
    """The page's HTML.

    Args:
        source: where its script finds the episodes: ``server`` or ``files``.
    """
    return _read("page.html").replace("SOURCE", source)


def style() -> str:
    """The style sheet, light and dark."""
    light, dark = ("".join(f"--{name}:{colour};" for name, colour in colours.items()) for colours in (_LIGHT, _DARK))
    chosen = (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
    )
    return chosen + _read("style.css")


def script() -> str:
    """The script, in one piece."""
    parts = "\n".join(_read(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'.replace("CHUNK_SIZE", str(CHUNK))


def _read(name: str) -> str:
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")
