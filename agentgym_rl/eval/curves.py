"""Learning curves of a run as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SURFACE, GRID, INK, MUTED = "#ffffff", "#e4e4e0", "#1f1f1d", "#6b6b66"
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
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), facecolor=SURFACE, layout="constrained")
    positions = range(len(stages))
    for number, (label, env) in enumerate(labels):
        results = [stage["panels"][label][env]["sampled"] for stage in stages]
        values = [100 * result["success"] for result in results]
        spread = [
            [value - 100 * result["ci95"][0] for value, result in zip(values, results, strict=True)],
            [100 * result["ci95"][1] - value for value, result in zip(values, results, strict=True)],
        ]
        shifted = [position + 0.06 * (number - (len(labels) - 1) / 2) for position in positions]
        left.errorbar(
            shifted, values, yerr=spread, color=COLOURS[number % len(COLOURS)], marker="o", markersize=5,
            linewidth=1.8, capsize=3, label=f"{env}: {label.replace('_', ' ')}",
        )  # fmt: skip
    left.set_xticks(list(positions), [stage["name"] for stage in stages])
    left.set_ylabel("success, %")
    left.set_title("Validation panels, sampled (95% intervals)", fontsize=10, color=INK, loc="left")
    envs = sorted({key.split("/")[1] for row in metrics for key in row if key.startswith("env/")})
    for number, env in enumerate(envs):
        points = [
            (row["run/episodes"], 100 * row[f"env/{env}/success"]) for row in metrics if f"env/{env}/success" in row
        ]
        if points:
            colour = COLOURS[number % len(COLOURS)]
            right.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3, linewidth=1.8, label=env)
    right.set_xlabel("training episodes")
    right.set_title("Training episodes, sampled", fontsize=10, color=INK, loc="left")
    for axes in (left, right):
        axes.set_facecolor(SURFACE)
        axes.set_ylim(0, 100)
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.tick_params(colors=MUTED, labelsize=9)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GRID)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    figure.suptitle(title, fontsize=11, color=INK, x=0.01, ha="left")
    part = path.with_suffix(".tmp.png")
    figure.savefig(part, dpi=130, facecolor=SURFACE)
    plt.close(figure)
    part.replace(path)
    return path
