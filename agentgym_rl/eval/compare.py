"""Runs that differ in their seed, beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from rich.table import Table

from agentgym_rl.eval.score import DECODINGS


def across_seeds(summaries: Sequence[dict[str, Any]]) -> Table:
    """Success of each stage: the mean over runs and each run's own value, in percent; then gains of the algorithm.

    Args:
        summaries: as in ``summary.json``.

    Raises:
        ValueError: there are none, or the runs differ in their stages or panels.
    """
    if not summaries:
        raise ValueError("no runs to compare")
    names = [stage["name"] for stage in summaries[0]["stages"]]
    for summary in summaries[1:]:
        if [stage["name"] for stage in summary["stages"]] != names or summary["panels"] != summaries[0]["panels"]:
            raise ValueError(
                f"{summary['name']} and {summaries[0]['name']} differ in their stages or panels; "
                "runs beside each other need the same"
            )
    panels = [(label, env) for label, worlds in summaries[0]["stages"][-1]["panels"].items() for env in worlds]
    columns = [(label, env, decoding) for label, env in panels for decoding in DECODINGS]
    seeds = ", ".join(str(summary["seed"]) for summary in summaries)
    table = Table(title=f"Success in %: mean (seeds {seeds})", title_justify="left")
    table.add_column("stage", no_wrap=True)
    for label, env, decoding in columns:
        table.add_column(f"{env}\n{label.replace('_', ' ')}\n{decoding}", justify="right", no_wrap=True)

    def values(stage: str, column: tuple[str, str, str]) -> list[float]:
        label, env, decoding = column
        return [
            100 * summary["stages"][names.index(stage)]["panels"][label][env][decoding]["success"]
            for summary in summaries
        ]

    for name in names:
        table.add_row(name, *(_cell(values(name, column)) for column in columns))
    algorithm = summaries[0]["algorithm"]
    for other in ("bc", "control"):
        if other in names and algorithm in names and algorithm != other:
            gains = [
                [mine - theirs for mine, theirs in zip(values(algorithm, column), values(other, column), strict=True)]
                for column in columns
            ]
            table.add_row(f"{algorithm} - {other}", *(_cell(gain, signed=True) for gain in gains))
    return table


def _cell(values: Sequence[float], signed: bool = False) -> str:
    form = "{:+.1f}" if signed else "{:.1f}"
    return f"{form.format(mean(values))} ({', '.join(form.format(value) for value in values)})"
