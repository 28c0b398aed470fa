"""A timeline as one HTML page that needs nothing else: a lane per episode, and what the lanes add up to."""

from collections.abc import Sequence
from typing import Any

from agentgym_rl.eval.html import render, script
from agentgym_rl.eval.html.chart import Chart, Line
from agentgym_rl.eval.html.palette import TIMES
from agentgym_rl.eval.timeline.lanes import KINDS, MEANINGS, Lane, concurrency, ended, percentile, shares

SLICES = 240
"""Slices of time in the chart of concurrency."""
PERCENTILES = (0.5, 0.9, 0.99, 1.0)
SLOWEST = 10
LABEL = 160
"""Most characters of what a span says."""


def page(lanes: Sequence[Lane], name: str, left_out: int = 0) -> str:
    """The page's HTML.

    Args:
        name: of the episodes' file, shown as the title.
        left_out: episodes without times.
    """
    total = max(lane.end for lane in lanes)
    rate, busy = (len(lanes) / total, sum(lane.seconds for lane in lanes) / total) if total else (0.0, 0.0)
    slowest = sorted(lanes, key=lambda lane: -lane.seconds)
    data = {
        "kinds": KINDS,
        "colours": [TIMES[kind] for kind in KINDS],
        "lanes": [_lane(lane) for lane in lanes],
        "concurrency": _concurrency(lanes, total),
    }
    return render(
        "timeline/page.html",
        script("timeline/page.js"),
        data,
        title=f"Timeline of {name}",
        facts=f"{len(lanes)} episodes in {total:.2f} s, {rate:.2f} a second; {busy:.1f} at a time on average, "
        f"the slowest took {slowest[0].seconds:.2f} s"
        + (f"; left out: {left_out} without a start time" if left_out else ""),
        shares=shares(lanes),
        percentiles=_percentiles(lanes),
        tail=_tail(lanes, total),
        meanings=MEANINGS,
        slowest=[(lane, shares([lane]), max(lane.spans, key=lambda span: span.seconds)) for lane in slowest[:SLOWEST]],
        label=LABEL,
    )


def _percentiles(lanes: Sequence[Lane]) -> dict[str, list[float]]:
    """Seconds at :data:`PERCENTILES` of whole episodes, and of the single waits for model and environment."""
    spans = [span for lane in lanes for span in lane.spans]
    seconds = {"an episode": [lane.seconds for lane in lanes]}
    for name, kind in (("one response", "generate"), ("one step", "step")):
        seconds[name] = [span.seconds for span in spans if span.kind == kind]
    return {name: [percentile(values, share) for share in PERCENTILES] for name, values in seconds.items() if values}


def _tail(lanes: Sequence[Lane], total: float) -> str:
    half, most = ended(lanes, 0.5), ended(lanes, 0.9)
    wait = f", {100 * (total - most) / total:.0f}% of the whole time" if total else ""
    return (
        f"Half of the episodes had ended after {half:.2f} s and nine tenths after {most:.2f} s. The last tenth took "
        f"another {total - most:.2f} s{wait}."
    )


def _lane(lane: Lane) -> dict[str, Any]:
    episode = lane.episode
    return {
        "name": episode.item_id,
        "says": f"{episode.item_id}: {len(episode.turns)} turns in {lane.seconds:.3f} s, {episode.ending.value}"
        + (f", reward {episode.reward:g}" if episode.ending.counts else ""),
        "spans": [
            [KINDS.index(span.kind), round(span.start, 6), round(span.seconds, 6), span.label[:LABEL]]
            for span in lane.spans
        ],
    }


def _concurrency(lanes: Sequence[Lane], total: float) -> Chart:
    """Areas on top of each other; the last slice ends at the end of the x axis."""
    by_kind = concurrency(lanes, SLICES)
    seconds = [*(start for start, *_ in by_kind), total]
    floor, lines = [0.0] * len(seconds), []
    for number, kind in enumerate(KINDS, start=1):
        counts = [row[number] for row in by_kind] + [row[number] for row in by_kind[-1:]]
        roof = [low + count for low, count in zip(floor, counts, strict=False)]
        if by_kind:
            lines.append(
                Line(kind, TIMES[kind], {"seconds": seconds}, roof, band=(floor, roof), stepped=True, filled=True)
            )
        floor = roof
    top = max(floor, default=0.0) or 1.0
    return Chart(
        "Episodes at a time in each kind",
        {"seconds": "seconds"},
        lines,
        top,
        whole=top > 4,
        y_label="episodes",
        height=260,
    )
