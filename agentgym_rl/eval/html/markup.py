"""HTML elements whose text and attributes are escaped by construction."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Markup(str):
    """Text that is HTML already."""


Child = str | Iterable["Child"] | None
"""What goes into an element: text, markup, nothing, or several of them."""


VOID = ("input", "meta")
"""Elements without content."""


def tag(name: str, *children: Child, **attributes: str | int | float | None) -> Markup:
    """An element; plain text is escaped, :class:`Markup` is kept.

    Args:
        attributes: an underscore at the end is dropped, so ``class_`` stands for ``class``; other underscores
            become hyphens, None leaves one out.
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{shown}>")
    return Markup(f"<{name}{shown}>{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """Children one after the other."""
    parts = []
    for child in children:
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(Markup(escape(child)))
        elif child is not None:
            parts.append(join(*child))
    return Markup("".join(parts))
