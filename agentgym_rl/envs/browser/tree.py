"""A page as text: its accessibility tree in WebArena's form, one element a line, ``[id] role 'name' state``."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym_rl.envs.bounds import cut

Node = Mapping[str, Any]
"""A node of CDP's ``Accessibility.getFullAXTree``."""
Box = tuple[float, float, float, float]
"""Left, top, width and height in pixels of the viewport."""

LONGEST_NAME = 1_000
"""Characters of an element's name."""

_LEFT_OUT = {
    *("focusable", "editable", "readonly", "level", "settable", "multiline", "invalid"),  # as WebArena does
    *("url", "labelledby", "describedby", "details", "errormessage", "controls", "owns", "activedescendant", "root"),
    *("busy", "live", "atomic", "relevant", "keyshortcuts"),
}
_NAMELESS = {
    *("generic", "img", "list", "strong", "paragraph", "banner", "navigation", "Section", "LabelText", "Legend"),
    *("listitem", "none", "SvgRoot", "Canvas", "LineBreak", "form", "row", "table", "LayoutTable", "LayoutTableRow"),
    *("LayoutTableCell", "MenuListPopup", "emphasis", "superscript", "subscript", "DescriptionList", "article"),
}
"""Roles whose elements are shown only when they have a name."""
_WITHOUT_ID = {"InlineTextBox", "ListMarker"}
_SHAPES = {"circle", "ellipse", "line", "path", "polygon", "polyline", "rect", "text"}
_PICTURES = {"image", "graphics-symbol", "graphics-object", "graphics-document", "Canvas", "img"}


@dataclass(frozen=True, slots=True)
class Element:
    """A line of the text."""

    id: int
    node: int
    """CDP's ``backendNodeId``."""
    role: str
    name: str
    depth: int
    state: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        state = "".join(f" {name}: {value}" for name, value in self.state)
        indent = "\t" * self.depth
        return f"{indent}[{self.id}] {self.role} {self.name!r}{state}"


@dataclass(slots=True)
class Numbers:
    """The ids of a document's nodes: from 1, in the order in which they were first seen, so that they are the same in
    every process."""

    _of: dict[int, int] = field(default_factory=dict)
    _nodes: dict[int, int] = field(default_factory=dict)

    def id(self, node: int) -> int:
        """The id of a node, which is kept."""
        if node not in self._of:
            self._of[node] = len(self._of) + 1
            self._nodes[self._of[node]] = node
        return self._of[node]

    def node(self, id: int) -> int | None:
        """The node of an id; None where no node has it."""
        return self._nodes.get(id)


@dataclass(frozen=True, slots=True)
class Layout:
    """What CDP's ``DOMSnapshot.captureSnapshot`` says of a document. Nodes are ``backendNodeId``."""

    boxes: Mapping[int, Box]
    """Of the nodes that are laid out."""
    looks: Mapping[int, str]
    """Tag, class, colour and place of the visible ones, in words."""
    figures: Sequence[int]
    """Shapes, and what can be clicked, in the order of the page."""
    parents: Mapping[int, int]
    size: tuple[float, float] | None
    """Width and height of the viewport; None shows all of the page."""

    def shows(self, node: int) -> bool:
        """Whether the viewport shows the node; of one without a box, such as an option, the nearest parent with one."""
        while node not in self.boxes and node in self.parents:
            node = self.parents[node]
        if self.size is None or node not in self.boxes:
            return True
        left, top, width, height = self.boxes[node]
        return left < self.size[0] and top < self.size[1] and left + width > 0 and top + height > 0

    def around(self, nodes: Iterable[int]) -> set[int]:
        """The nodes and all that they are in."""
        inside: set[int] = set()
        for node in nodes:
            while node not in inside:
                inside.add(node)
                node = self.parents.get(node, node)
        return inside


STYLES = ("background-color", "fill", "stroke", "visibility")
"""The styles that :func:`layout` needs of a snapshot."""


def layout(snapshot: Mapping[str, Any], size: tuple[float, float] | None) -> Layout:
    """Read a snapshot that was taken with :data:`STYLES`; the first of its documents is the page."""
    page, strings = snapshot["documents"][0], snapshot["strings"]
    nodes, laid, ids = page["nodes"], page["layout"], page["nodes"]["backendNodeId"]
    clickable = set(nodes["isClickable"]["index"])
    boxes, looks, figures = {}, {}, []
    for place, (left, top, width, height), styles in zip(
        laid["nodeIndex"], laid["bounds"], laid["styles"], strict=True
    ):
        node, tag = ids[place], strings[nodes["nodeName"][place]].lower()
        boxes[node] = (left - page["scrollOffsetX"], top - page["scrollOffsetY"], width, height)
        if tag[0] in "#:" or tag in ("html", "body") or len(styles) < len(STYLES):
            continue
        background, fill, stroke, visibility = (strings[at] for at in styles)
        if visibility == "visible":
            attributes = [strings[at] for at in nodes["attributes"][place]]
            kinds = dict(zip(attributes[::2], attributes[1::2], strict=True)).get("class", "").split()
            colour = (fill if fill != "none" else stroke) if tag in _SHAPES else background
            looks[node] = f"{'.'.join([tag, *kinds[:3]])}{_colour(colour)} at {_place(boxes[node])}"
            if tag in _SHAPES or place in clickable:
                figures.append(node)
    parents = {node: ids[above] for node, above in zip(ids, nodes["parentIndex"], strict=True) if above >= 0}
    return Layout(boxes, looks, figures, parents, size)


def _place(box: Box) -> str:
    left, top, width, height = (round(number) for number in box)
    return f"{left},{top} size {width}x{height}"


def _colour(style: str) -> str:
    """A computed colour such as ``#ff0000``, after a space; nothing for one that is not seen."""
    numbers = re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", style)
    return " #" + "".join(f"{int(number):02x}" for number in numbers.groups()) if numbers else ""


def elements(
    nodes: Sequence[Node], numbers: Numbers, layout: Layout | None = None, figures: bool = False
) -> list[Element]:
    """The lines of a page.

    Elements without a name or a state, and text that its element's name repeats, are left out, as in WebArena.

    Args:
        nodes: of the accessibility tree; the first one is its root.
        layout: leave out what it does not show.
        figures: describe the look of nameless pictures and of text among shapes, and add the layout's figures that the
            tree says nothing of.
    """
    listed: list[Element] = []
    repeated: set[int] = set()
    for node, depth, within in _walk(nodes):
        role, name = _value(node, "role"), " ".join(str(_value(node, "name")).split())
        state, place = tuple(_state(node)), node["backendDOMNodeId"]
        if layout is not None and not layout.shows(place) and role != "RootWebArea":
            continue
        if role == "StaticText" and layout is not None and layout.boxes.get(place, (0, 0, 1, 1))[2:] == (0, 0):
            continue  # text that its page hides by giving it no room
        if role == "StaticText" and name and name in within:
            repeated.add(place)
            continue
        if figures and layout is not None:
            above = layout.parents.get(place, place)
            if role in _PICTURES and not name:
                name = layout.looks.get(place, "")
            elif role == "StaticText" and name and above in layout.figures and layout.looks[above].startswith("text"):
                state = (("look", layout.looks[above]), *state)
        if name or (state and role not in ("generic", "none")) or role not in _NAMELESS | {"StaticText"}:
            listed.append(Element(numbers.id(place), place, role, cut(name, LONGEST_NAME), depth, state))
    if figures and layout is not None:
        known = layout.around(repeated | {element.node for element in listed})
        listed += [
            Element(numbers.id(node), node, "figure", layout.looks[node], 1)
            for node in layout.figures
            if node not in known and layout.shows(node)
        ]
    return listed


def _walk(nodes: Sequence[Node]) -> Iterator[tuple[Node, int, str]]:
    """The nodes that may be shown, in the order of the page, with their depth and the name of what they are in."""
    by_id = {node["nodeId"]: node for node in nodes}
    stack = [(nodes[0], 0, "")] if nodes else []
    while stack:
        node, depth, within = stack.pop()
        role, name = _value(node, "role"), str(_value(node, "name"))
        shown = not node.get("ignored") and "backendDOMNodeId" in node and role not in _WITHOUT_ID
        if shown:
            yield node, depth, within
        deeper = shown and (name.strip() != "" or role not in _NAMELESS)
        inner = f"{name} {_value(node, 'value')}" if deeper and role != "RootWebArea" else within
        children = [child for child in reversed(node.get("childIds", ())) if child in by_id]
        stack += [(by_id[child], depth + deeper, inner) for child in children]


def _value(node: Node, key: str) -> Any:
    return node.get(key, {}).get("value", "")


def _state(node: Node) -> Iterator[tuple[str, Any]]:
    if (value := _value(node, "value")) != "" and _value(node, "role") not in ("link", "StaticText"):
        yield "value", repr(cut(str(value), LONGEST_NAME))
    for entry in node.get("properties", ()):
        name, value = entry["name"], entry["value"].get("value")
        if name not in _LEFT_OUT and value not in (None, ""):
            yield name, value
