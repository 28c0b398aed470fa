"""The curves of a comparison as pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from agentgym_rl.eval.comparison.compare import Comparison
from agentgym_rl.eval.comparison.learning import Curve, Plot, logs, online, plots, shares
from agentgym_rl.eval.html.palette import GRID, INK, MUTED, SURFACE, WORLDS, look

MARKERS = "osD^vPX*"
CONTROL = "hollow: control"
NICE = [1, 2, 2.5, 5, 10]


def write_png(comparison: Comparison, path: Path) -> list[Path]:
    """Write the learning curves, and beside them the shares of the worlds (``<name>-shares.png``) where they vary.

    Raises:
        ValueError: no run trains online.
    """
    written = []
    for figure, file in (
        (learning_curves(comparison), path),
        (share_curves(comparison), path.with_name(f"{path.stem}-shares.png")),
    ):
        if figure is None and file == path:
            raise ValueError("there are no curves to draw: no run spent training episodes or kept its metrics")
        if figure is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(".tmp.png")
            figure.savefig(part, dpi=150, facecolor=SURFACE)
            plt.close(figure)
            part.replace(file)
            written.append(file)
    return written


def learning_curves(comparison: Comparison) -> Any:
    """Success against training episodes and against minutes, a row a panel; None without any curve."""
    drawn = plots(comparison, logs(comparison))
    if not drawn:
        return None
    with _style():
        figure, axes = plt.subplots(
            len(drawn), 2, figsize=(11, 1.1 + 2.9 * len(drawn)), sharey="row", squeeze=False, layout="constrained"
        )
        for number, (plot, (left, right)) in enumerate(zip(drawn, axes, strict=True)):
            _draw(comparison, plot, left, right)
            if number == len(drawn) - 1:
                left.set_xlabel("training episodes")
                right.set_xlabel("minutes")
        figure.align_ylabels()
        handles = {
            label: handle for one in axes.flat for handle, label in zip(*one.get_legend_handles_labels(), strict=True)
        }
        order = [arm.label for arm in comparison.arms if arm.label in handles]
        hollow = [label for label in handles if label not in order]
        columns = max(1, min(len(handles), 130 // (max(map(len, handles)) + 8)))
        figure.legend(
            [handles[label] for label in (*order, *hollow)],
            [*order, *hollow],
            loc="outside upper left",
            ncols=columns,
            frameon=False,
        )
        caption = (
            "Lines: mean over seeds. Bands: least to greatest seed. Both axes count from where the algorithm starts."
        )
        if hollow:
            caption += "\nDotted to a hollow marker: the control, as many updates on expert data alone."
        figure.supxlabel(caption, x=0.01, ha="left", fontsize=8, color=MUTED)
    return figure


def share_curves(comparison: Comparison) -> Any:
    """Share of training episodes of each world over the steps, a panel an arm; None where no share varies."""
    found = shares(comparison, logs(comparison))
    drawn = [(arm, curves) for arm, curves in found if any(one.varies for one in curves.values())]
    if not drawn:
        return None
    columns = min(3, len(drawn))
    rows = -(-len(drawn) // columns)
    envs = sorted({env for _, curves in drawn for env in curves})
    with _style():
        figure, axes = plt.subplots(
            rows, columns, figsize=(max(5.5, 3.7 * columns), 0.7 + 2.5 * rows), sharey=True, squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for one in axes.flat[len(drawn) :]:
            one.set_visible(False)
        for one, (arm, curves) in zip(axes.flat, drawn, strict=False):
            for env, own in curves.items():
                place = envs.index(env)
                style = {"color": WORLDS[place % len(WORLDS)], "marker": MARKERS[place % len(MARKERS)]}
                every = max(1, len(own.steps) // 12)
                one.plot(own.steps, [100 * value for value in own.mean], label=env, markevery=every, **style)
            one.set_title(arm.label)
            one.set_ylim(0, 102)
            one.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        for row in axes:
            row[0].set_ylabel("share of episodes, %")
        for one in axes[-1]:
            one.set_xlabel("training step")
        handles, names = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper left", ncols=min(6, len(names)), frameon=False)
    return figure


def _draw(comparison: Comparison, plot: Plot, left: Any, right: Any) -> None:
    order = online(comparison)
    labels = [arm.label for arm in comparison.arms]
    controls = {arm: (minutes, value) for arm, minutes, value in plot.controls}
    highest = max([max(curve.high) for _, curve in plot.curves] + [value for _, _, value in plot.controls])
    for arm, curve in plot.curves:
        place = order.index(arm)
        colour, dashes = look(comparison.arms, labels.index(arm.label))
        style = {"color": colour, "linestyle": dashes, "marker": MARKERS[place % len(MARKERS)]}
        _line(left, curve.episodes, curve, arm.label, style)
        _line(right, curve.minutes, curve, arm.label, style)
        control = controls.get(arm.label)
        if control is not None:
            minutes, value = control
            ends = [100 * curve.mean[0], 100 * value]
            dotted = {"color": colour, "linestyle": ":", "linewidth": 1.4, "marker": style["marker"], "markevery": [1]}
            for one, end in ((left, curve.episodes[-1]), (right, minutes)):
                one.plot([0, end], ends, markerfacecolor=SURFACE, clip_on=False, zorder=2, **dotted)
            left.plot([], [], label=CONTROL, **(dotted | {"color": MUTED}), markerfacecolor=SURFACE)
    what = "training episodes" if plot.panel is None else f"{plot.panel.replace('_', ' ')}, {comparison.decoding}"
    left.set_title(f"{plot.env}: {what}")
    left.set_ylabel("success, %")
    left.set_ylim(0, min(102.0, max(5.0, 112 * highest)))
    left.yaxis.set_major_locator(MaxNLocator(5, steps=NICE))
    for one in (left, right):
        one.set_xlim(left=0)
        one.xaxis.set_major_locator(MaxNLocator(6, steps=NICE))
        one.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value == int(value) else f"{value:g}")


def _line(axes: Any, x: tuple[float, ...], curve: Curve, label: str, style: dict[str, Any]) -> None:
    axes.fill_between(
        x, [100 * low for low in curve.low], [100 * high for high in curve.high], color=style["color"], alpha=0.16,
        linewidth=0,
    )  # fmt: skip
    every = max(1, len(x) // 12)
    axes.plot(x, [100 * value for value in curve.mean], label=label, clip_on=False, zorder=3, markevery=every, **style)


@contextmanager
def _style() -> Iterator[None]:
    with matplotlib.rc_context(
        {
            "axes.edgecolor": GRID, "axes.facecolor": "none", "axes.grid": True, "axes.grid.axis": "y",
            "axes.labelcolor": MUTED, "axes.labelsize": 9, "axes.spines.left": False, "axes.spines.right": False,
            "axes.spines.top": False, "axes.titlecolor": INK, "axes.titlelocation": "left", "axes.titlesize": 10,
            "axes.titleweight": "bold", "axes.axisbelow": True, "font.size": 9,
            "grid.color": GRID, "grid.linewidth": 0.8, "legend.labelcolor": INK, "legend.fontsize": 9,
            "lines.linewidth": 2, "lines.markersize": 5, "text.parse_math": False,
            "xtick.color": MUTED, "ytick.color": MUTED, "ytick.left": False,
        }
    ):  # fmt: skip
        yield
