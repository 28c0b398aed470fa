"""Charts as pictures, drawn by matplotlib."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator

from agentgym_rl.data.files import written_whole
from agentgym_rl.eval.html.chart import Chart, Line
from agentgym_rl.eval.html.palette import light

MARKERS = "osD^vPX*"
WIDTH = 8.3
"""Least inches: about the width of a README, in which text of 9 points is read as it is."""
NICE = [1, 2, 2.5, 5, 10]
STYLE = {
    "axes.edgecolor": light("grid"), "axes.facecolor": "none", "axes.grid": True, "axes.grid.axis": "y",
    "axes.labelcolor": light("muted"), "axes.labelsize": 9, "axes.spines.left": False, "axes.spines.right": False,
    "axes.spines.top": False, "axes.titlecolor": light("ink"), "axes.titlelocation": "left", "axes.titlesize": 10,
    "axes.titleweight": "bold", "axes.axisbelow": True, "font.size": 9,
    "grid.color": light("grid"), "grid.linewidth": 0.8, "legend.labelcolor": light("ink"), "legend.fontsize": 9,
    "lines.linewidth": 2, "lines.markersize": 5, "text.parse_math": False,
    "xtick.color": light("muted"), "ytick.color": light("muted"), "ytick.left": False,
}  # fmt: skip
Panel = tuple[Chart, str]
"""A chart and the axis it is drawn against."""


def write(
    path: Path, rows: Sequence[Sequence[Panel]], caption: str = "", widths: Sequence[float] | None = None
) -> Path:
    """Write charts as a PNG, in rows of equal length; lines of one label share a marker and an entry of the legend.

    Args:
        caption: a text below the charts.
        widths: of the columns, relative to each other.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(rows), len(rows[0]), figsize=(max(WIDTH, 4.1 * len(rows[0])), 1.3 + 2.3 * len(rows)), squeeze=False,
            layout="constrained", width_ratios=widths,
        )  # fmt: skip
        labels = list(
            dict.fromkeys(line.label for row in rows for chart, _ in row for line in chart.lines if line.label)
        )
        for row, drawn in zip(rows, axes, strict=True):
            for (chart, axis), cell in zip(row, drawn, strict=True):
                _draw(cell, chart, axis, labels)
        _legend(figure, axes.flat, labels)
        lines = fill(caption, round(17 * figure.get_figwidth()))
        figure.supxlabel(lines, x=0.01, ha="left", fontsize=8, color=light("muted"))
        with written_whole(path) as part:
            figure.savefig(part, dpi=200, format="png", facecolor=light("surface"))
        plt.close(figure)
    return path


def _draw(axes: Any, chart: Chart, axis: str, labels: Sequence[str]) -> None:
    for line in chart.lines:
        if axis in line.x:
            place = labels.index(line.label) if line.label else 0
            _line(axes, line, line.x[axis], MARKERS[place % len(MARKERS)])
    for name, height in chart.references.items():
        axes.axhline(height, color=light("muted"), linestyle=":", linewidth=1)
        axes.annotate(
            name, (1, height), (0, 2), xycoords=("axes fraction", "data"), textcoords="offset points", ha="right",
            fontsize=8, color=light("muted"),
        )  # fmt: skip
    axes.set_title(chart.name)
    axes.set_xlabel(chart.axes[axis])
    axes.set_ylabel(chart.y_label)
    axes.set_ylim(chart.bottom, 1.02 * chart.top)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=NICE))
    if chart.names:
        axes.set_xticks(range(len(chart.names)), chart.names)
        axes.set_xlim(-0.3, len(chart.names) - 0.7)
        return
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=NICE))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value == int(value) else f"{value:g}")
    )


def _line(axes: Any, line: Line, x: Sequence[float], marker: str) -> None:
    colour = light(line.colour)
    shown: dict[str, Any] = {"color": colour, "linestyle": line.dashes}
    if line.stepped:
        shown["drawstyle"] = "steps-post"
    if line.faint:
        shown |= {"marker": ".", "markersize": 3, "linestyle": "none", "alpha": 0.35}
    elif line.thin:
        shown |= {"linewidth": 0.8, "alpha": 0.4}
    elif line.hollow:
        shown |= {"marker": marker, "markevery": [len(x) - 1], "markerfacecolor": light("surface"), "linewidth": 1.4}
    else:
        shown |= {"marker": marker, "markevery": max(1, len(x) // 12)}
    axes.plot(x, line.y, label="" if line.faint else line.label, clip_on=False, zorder=3, **shown)
    if line.band is None:
        return
    low, high = line.band
    if line.whiskers:
        below = [y - edge for y, edge in zip(line.y, low, strict=True)]
        above = [edge - y for y, edge in zip(line.y, high, strict=True)]
        axes.errorbar(x, line.y, yerr=[below, above], color=colour, linestyle="none", capsize=3, linewidth=1.8)
    else:
        axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0, step="post" if line.stepped else None)


def _legend(figure: Any, axes: Iterator[Any], labels: Sequence[str]) -> None:
    handles: dict[str, Any] = {}
    for axis in axes:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    if handles:
        shown = [label for label in labels if label in handles]
        columns = max(1, min(len(shown), 130 // (max(map(len, shown)) + 8)))
        entries = [handles[label] for label in shown]
        figure.legend(entries, shown, loc="outside upper left", ncols=columns, frameon=False)
