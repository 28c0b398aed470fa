"""A timeline as one HTML page that needs nothing else: a lane an episode, and what it adds up to."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

from agentgym_rl.eval.html.markup import Markup, join, tag
from agentgym_rl.eval.html.style import CSS, colours, variable
from agentgym_rl.eval.timeline.lanes import KINDS, MEANINGS, Kind, Lane, concurrency, shares
from agentgym_rl.eval.timeline.script import SCRIPT

COLOURS: dict[Kind, str] = {"generate": "#0072b2", "parse": "#cc79a7", "step": "#d55e00", "wait": "#b4b4ae"}
SLICES = 240
"""Columns of the picture of concurrency."""
SLOWEST = 10
LABEL = 160
"""Most characters of what a span says."""
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; "
    f"script-src 'sha256-{b64encode(sha256(SCRIPT.encode()).digest()).decode()}'"
)
"""The browser requests nothing and runs no script but the page's own."""

STYLE = """
.legend{display:flex;flex-wrap:wrap;gap:4px 22px;list-style:none;margin:0 0 10px;padding:0;font-size:13px}
.legend i{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:8px;background:var(--hue);
 vertical-align:-1px}
.whole,.part{display:flex;overflow:hidden;border-radius:4px;background:var(--grid)}
.whole{height:26px;margin-bottom:12px}.part{height:11px;min-width:120px;margin-top:6px}
.whole i,th .part i{background:var(--hue);margin:0;border-radius:0;height:auto}
.zoom{display:flex;gap:6px;margin:0 0 8px}
.zoom button{font:inherit;font-size:13px;color:inherit;background:none;cursor:pointer;border:1px solid var(--grid);
 border-radius:8px;padding:2px 12px}
#lanes{position:relative;max-height:min(620px,75vh);overflow-y:auto;border:1px solid var(--grid);border-radius:10px;
 background:var(--card)}
#lanes canvas{position:sticky;top:0;display:block;width:100%;touch-action:pan-y;cursor:crosshair}
#point{white-space:pre-line;overflow-wrap:anywhere}
.area{display:block;width:100%;height:auto}
.area text{font:12px system-ui,sans-serif;fill:var(--muted)}
"""


def page(lanes: Sequence[Lane], name: str) -> str:
    """The page's HTML.

    Args:
        name: of the episodes' file, shown as the title.
    """
    whole = max(lane.end for lane in lanes)
    rate = len(lanes) / whole if whole else 0.0
    busy = sum(lane.seconds for lane in lanes) / whole if whole else 0.0
    facts = (
        f"{len(lanes)} episodes in {whole:.2f} s, {rate:.2f} a second; {busy:.1f} at a time on average, "
        f"the slowest took {max(lane.seconds for lane in lanes):.2f} s"
    )
    body = [
        tag("header", tag("h1", f"Timeline of {name}"), tag("p", facts, class_="lead")),
        tag("main", _shares(lanes), _lanes(lanes), _concurrency(lanes, whole), _slowest(lanes)),
        tag("p", id="point", role="status", hidden=""),
        Markup(f"<script>{SCRIPT}</script>"),
    ]
    head = join(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("title", f"Timeline of {name}"),
        Markup(f"<style>{colours()}{CSS}{STYLE}</style>"),
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{join(body)}</body></html>\n'


def _hue(kind: Kind) -> str:
    return f"--hue:{variable(COLOURS[kind])}"


def _bar(parts: dict[Kind, float], class_: str) -> Markup:
    """Shares beside each other; ``parts`` sum to at most 1."""
    pieces = [tag("i", style=f"{_hue(kind)};width:{100 * share:.3f}%") for kind, share in parts.items()]
    said = ", ".join(f"{kind} {100 * share:.1f}%" for kind, share in parts.items())
    return tag("div", pieces, class_=class_, role="img", aria_label=said, title=said)


def _shares(lanes: Sequence[Lane]) -> Markup:
    found = shares(lanes)
    legend = [
        tag("li", tag("i", style=_hue(kind)), tag("b", f"{kind} {100 * share:.1f}%"), f" {MEANINGS[kind]}")
        for kind, share in found.items()
    ]
    return tag(
        "section",
        tag("h2", "Where the time went"),
        tag("p", "Share of the summed time of all episodes.", class_="note"),
        _bar(found, "whole"),
        tag("ul", legend, class_="legend"),
    )


def _lanes(lanes: Sequence[Lane]) -> Markup:
    data = {
        "kinds": KINDS,
        "hues": [COLOURS[kind][1:] for kind in KINDS],
        "lanes": [
            {
                "name": lane.episode.item_id,
                "says": _says(lane),
                "spans": [
                    [KINDS.index(span.kind), round(span.start, 6), round(span.seconds, 6), span.label[:LABEL]]
                    for span in lane.spans
                ],
            }
            for lane in lanes
        ],
    }
    written = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # no text can end the element
    buttons = [
        tag("button", label, type="button", data_zoom=factor, aria_label=said)
        for label, factor, said in (
            ("+", "2", "zoom in"),
            ("\u2212", "0.5", "zoom out"),
            ("all", "0", "show everything"),
        )
    ]
    return tag(
        "section",
        tag("h2", "Episodes"),
        tag(
            "p",
            "A lane an episode, by the time it began. Ctrl and the wheel zoom, dragging moves, a double click shows "
            "everything; with the lanes focused, so do + - 0 and the arrow keys. Hover a stretch to read what it was.",
            class_="note",
        ),
        tag("div", buttons, class_="zoom"),
        tag("div", tag("canvas", tabindex=0, role="img", aria_label="lanes of the episodes"), tag("div"), id="lanes"),
        Markup(f'<script type="application/json" id="data">{written}</script>'),
    )


def _says(lane: Lane) -> str:
    episode = lane.episode
    return (
        f"{episode.item_id}: {len(episode.turns)} turns in {lane.seconds:.3f} s, {episode.ending.value}, "
        f"reward {episode.reward:g}"
    )


def _concurrency(lanes: Sequence[Lane], whole: float) -> Markup | None:
    found = concurrency(lanes, SLICES)
    if not found:
        return None
    top = max(sum(counts) for _, *counts in found)
    width, height, left, bottom = 1100.0, 220.0, 44.0, 24.0
    x = [left + (width - left) * place / SLICES for place in range(SLICES + 1)]
    floor = [0.0] * SLICES
    shapes = []
    for number, kind in enumerate(KINDS):
        roof = [low + row[1 + number] for low, row in zip(floor, found, strict=True)]
        there = [
            f"{x[place + side]:.1f},{_y(roof[place], top, height):.1f}" for place in range(SLICES) for side in (0, 1)
        ]
        back = [
            f"{x[place + side]:.1f},{_y(floor[place], top, height):.1f}"
            for place in reversed(range(SLICES))
            for side in (1, 0)
        ]
        shapes.append(tag("polygon", points=" ".join(there + back), style=f"fill:{variable(COLOURS[kind])}"))
        floor = roof
    scale = [
        tag(
            "text",
            f"{top * part:.{0 if top > 4 else 1}f}",
            x=left - 6,
            y=_y(top * part, top, height) + 4,
            text_anchor="end",
        )
        for part in (0, 0.5, 1)
    ]
    times = [
        tag("text", f"{whole * part:.2f} s", x=left + (width - left) * part, y=height + 18, text_anchor=anchor)
        for part, anchor in ((0, "start"), (0.5, "middle"), (1, "end"))
    ]
    drawing = tag(
        "svg", shapes, scale, times, viewBox=f"0 0 {width:g} {height + bottom:g}", class_="area", role="img",
        aria_label=f"episodes at a time in each kind, at most {top:.1f}",
    )  # fmt: skip
    return tag(
        "section",
        tag("h2", "At the same time"),
        tag(
            "p", "Episodes at a time that generate, parse, step or wait; the mean of each slice of time.", class_="note"
        ),
        tag("figure", drawing),
    )


def _y(value: float, top: float, height: float) -> float:
    return 8 + (height - 8) * (1 - value / top)


def _slowest(lanes: Sequence[Lane]) -> Markup:
    rows = []
    for lane in sorted(lanes, key=lambda lane: -lane.seconds)[:SLOWEST]:
        parts = {kind: lane.spent(kind) / lane.seconds if lane.seconds else 0.0 for kind in KINDS}
        longest = max(lane.spans, key=lambda span: span.seconds)
        rows.append(
            tag(
                "tr",
                tag("th", lane.episode.item_id, _bar(parts, "part"), scope="row"),
                tag("td", f"{lane.seconds:.3f}"),
                tag("td", str(len(lane.episode.turns))),
                tag("td", f"{longest.kind}, {longest.label[:LABEL]}: {longest.seconds:.3f} s"),
                tag("td", lane.episode.ending.value),
            )
        )
    titles = ("episode", "seconds", "turns", "longest stretch", "ending")
    head = tag("thead", tag("tr", [tag("th", title, scope="col") for title in titles]))
    return tag(
        "section", tag("h2", "Slowest episodes"), tag("div", tag("table", head, tag("tbody", rows)), class_="scroll")
    )
