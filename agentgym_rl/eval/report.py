"""Learning curves of a run as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from agentgym_rl.eval.html.palette import GRID, INK, MUTED, SURFACE

COLOURS = ("#2a6fbb", "#d9730d", "#0f8b6d", "#8a4fbf", "#b3261e", "#5b6470")


def draw(summary: dict[str, Any], metrics: Sequence[dict[str, Any]], path: Path, title: str) -> Path:
    """Success on the validation panels (stages, with 95% intervals) and of training episodes (steps).

    Args:
        summary: as in ``summary.json``.
        metrics: rows of ``metrics.jsonl``.
        path: PNG to write.
    """
    stages = summary["stages"]
    labels = [(label, env) for label, worlds in stages[-1]["panels"].items() for env in worlds] if stages else []
    envs = sorted(
        {env for _, env in labels} | {key.split("/")[1] for row in metrics for key in row if key[:4] == "env/"}
    )
    colours = {env: COLOURS[number % len(COLOURS)] for number, env in enumerate(envs)}
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.2), facecolor=SURFACE, layout="constrained", width_ratios=(3, 2)
    )
    positions = range(len(stages))
    names = [stage["name"] for stage in stages]
    drawn: set[str] = set()
    for number, (label, env) in enumerate(labels):
        results = [stage["panels"][label][env]["sampled"] for stage in stages]
        values = [100 * result["success"] for result in results]
        spread = [
            [value - 100 * result["ci95"][0] for value, result in zip(values, results, strict=True)],
            [100 * result["ci95"][1] - value for value, result in zip(values, results, strict=True)],
        ]
        shifted = [position + 0.06 * (number - (len(labels) - 1) / 2) for position in positions]
        line = "--" if env in drawn else "-"  # a second panel of the same world
        drawn.add(env)
        style = {"color": colours[env], "marker": "o", "markersize": 5}
        left.errorbar(shifted, values, yerr=spread, linestyle="none", capsize=3, linewidth=1.8, **style)
        path_of = [place for place in positions if names[place] != "control"]
        left.plot(
            [shifted[place] for place in path_of], [values[place] for place in path_of], linestyle=line, linewidth=1.8,
            label=f"{env}: {label.replace('_', ' ')}", **style,
        )  # fmt: skip
        if "control" in names and "bc" in names:  # the control goes on from the cloned weights
            ends = (names.index("bc"), names.index("control"))
            left.plot(
                [shifted[end] for end in ends], [values[end] for end in ends], color=colours[env], linestyle=":",
                linewidth=1.2, alpha=0.7,
            )  # fmt: skip
    left.set_xticks(list(positions), names)
    left.set_ylabel("success, %")
    left.set_title(
        "Validation panels, sampled, 95% intervals; dotted: control from bc", fontsize=10, color=INK, loc="left"
    )
    for env in envs:
        points = [
            (row["run/episodes"], 100 * row[f"env/{env}/success"]) for row in metrics if f"env/{env}/success" in row
        ]
        if points:
            right.plot(
                *zip(*points, strict=True), color=colours[env], marker="o", markersize=4, linewidth=1.8, label=env
            )
    right.set_xlabel("training episodes")
    right.set_xlim(left=0)
    right.set_title("Training episodes, sampled", fontsize=10, color=INK, loc="left")
    for axes in (left, right):
        _plain(axes)
    figure.suptitle(title, fontsize=11, color=INK, x=0.01, ha="left")
    return _save(figure, path)


def over_seeds(
    lines: Mapping[str, Sequence[tuple[Sequence[float], Sequence[float]]]], path: Path, *, x_label: str
) -> Path:
    """Success in percent, one curve (x, y) a seed: thin lines, and their mean where all of them have points.

    Args:
        lines: by arm; the curves of an arm have as many points each.
        path: PNG to write.

    Raises:
        ValueError: the curves of an arm are not of one length.
    """
    figure, axes = plt.subplots(figsize=(7, 4.2), facecolor=SURFACE, layout="constrained")
    for colour, (arm, curves) in zip(cycle(COLOURS), lines.items(), strict=False):
        for x, y in curves:
            axes.plot(x, y, color=colour, linewidth=0.8, alpha=0.4)
        means = [[fmean(point) for point in zip(*axis, strict=True)] for axis in zip(*curves, strict=True)]
        axes.plot(*means, color=colour, linewidth=2.2, marker="o", markersize=4, label=arm)
    axes.set_xlabel(x_label, fontsize=9, color=MUTED)
    axes.set_ylabel("success on validation tasks, %", fontsize=9, color=MUTED)
    axes.set_xlim(left=0)
    _plain(axes)
    return _save(figure, path)


def _plain(axes: Any) -> None:
    """Percent from 0 to 100, in the colours of the house."""
    axes.set_facecolor(SURFACE)
    axes.set_ylim(0, 100)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.tick_params(colors=MUTED, labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRID)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, labelcolor=INK)


def _save(figure: Any, path: Path) -> Path:
    part = path.with_suffix(".tmp.png")
    figure.savefig(part, dpi=130, facecolor=SURFACE)
    plt.close(figure)
    part.replace(path)
    return path
