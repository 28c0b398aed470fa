"""What ``benchmarks/rollout.py`` prints."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

TIMES_LOCKSTEP, OF_BOUND, COST_GROWTH = 3.0, 0.9, 1.2
"""Targets: the first under the heavy tail, the second at 256 episodes, the third from 16 to 1,000 of them."""
NO_ENV = "-"
"""Latency of what is played without environments."""


@dataclass(frozen=True, slots=True)
class Row:
    """One side, played once."""

    side: str
    episodes: int
    turns: int
    seconds: float
    model_idle: float
    """Share of the time in which nothing was asked of the model."""
    world_idle: float
    """Share of the time in which no environment was at work."""
    cpu_s: float
    """CPU time of the rollout's own process."""
    servers_cpu_s: float
    """CPU time of the engine's processes."""
    memory_mib: float
    """Growth of the rollout's process."""


class Measured:
    """Rows of one setting, by side and repeat."""

    def __init__(self, rows: Sequence[dict[str, Any]], in_flight: int, latency: str) -> None:
        self.by_side: dict[str, dict[int, dict[str, Any]]] = {}
        for row in rows:
            if row["in_flight"] == in_flight and row["latency"] in (latency, NO_ENV):
                self.by_side.setdefault(row["side"], {})[row["repeat"]] = row

    def each(self, side: str, key: str) -> list[float]:
        """One number a repeat."""
        return [row[key] for _, row in sorted(self.by_side[side].items())]

    def together(self, *sides: str) -> list[tuple[float, ...]]:
        """Seconds of several sides in each repeat that all of them played."""
        repeats = sorted(set.intersection(*(set(self.by_side[side]) for side in sides)))
        return [tuple(self.by_side[side][repeat]["seconds"] for side in sides) for repeat in repeats]

    def rate(self, side: str) -> list[float]:
        """Episodes a second."""
        return [row["episodes"] / row["seconds"] for _, row in sorted(self.by_side[side].items())]

    def times(self, side: str) -> list[float]:
        """How many times as fast as another side ours is, in the same repeat."""
        return [theirs / mine for mine, theirs in self.together("ours", side)]

    def of_bound(self) -> list[float]:
        """Fraction of the bound."""
        return [
            max(model, envs) / mine for mine, model, envs in self.together("ours", "model only", "environments only")
        ]

    def per_turn(self, side: str, key: str) -> list[float]:
        return [row[key] / row["turns"] for _, row in sorted(self.by_side[side].items())]

    def per_episode(self, side: str, key: str) -> list[float]:
        return [row[key] / row["episodes"] for _, row in sorted(self.by_side[side].items())]


def spread(values: Sequence[float], digits: int, scale: float = 1.0) -> str:
    """Median and range."""
    low, middle, high = (scale * value for value in (min(values), median(values), max(values)))
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})" if len(values) > 1 else f"{middle:.{digits}f}"


def show(console: Console, rows: Sequence[dict[str, Any]], cells: Sequence[tuple[int, str]], median_ms: float) -> None:
    """Print speed, cost and how they stand to the targets."""
    repeats = 1 + max(row["repeat"] for row in rows)
    of_cell = {cell: Measured(rows, *cell) for cell in cells}
    turns = {row["in_flight"]: row["turns"] / row["episodes"] for row in rows if row["side"] == "ours"}
    console.print(
        f"{os.cpu_count()} cores; median (range), repeats: {repeats}; {max(turns.values()):.1f} turns an episode; "
        f"the tail's median is {median_ms:g} ms, its 99th percentile {20 * median_ms:g} ms",
        highlight=False,
    )
    console.print(_speed(of_cell))
    console.print(_cost(of_cell))
    for line in verdicts(of_cell):
        console.print(line, highlight=False)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for column in ("in flight", "latency", *columns):
        table.add_column(column, justify="right")
    return table


def _speed(of_cell: dict[tuple[int, str], Measured]) -> Table:
    table = _table(
        "episodes a second", "ours", "lockstep", "ours/lockstep", "ours/lockstep+1s", "of the bound", "bound by",
        "model only, s", "environments only, s", "longest alone, s", "ours, s",
    )  # fmt: skip
    for (count, latency), cell in of_cell.items():
        model, envs = median(cell.each("model only", "seconds")), median(cell.each("environments only", "seconds"))
        table.add_row(
            str(count), latency, spread(cell.rate("ours"), 1), spread(cell.rate("lockstep"), 1),
            spread(cell.times("lockstep"), 2), spread(cell.times("lockstep+1s"), 1), spread(cell.of_bound(), 2),
            "model" if model > envs else "environments", f"{model:.1f}", f"{envs:.1f}",
            f"{median(cell.each('longest alone', 'seconds')):.1f}", f"{median(cell.each('ours', 'seconds')):.1f}",
        )  # fmt: skip
    return table


def _cost(of_cell: dict[tuple[int, str], Measured]) -> Table:
    table = _table(
        "idle share of the time; cost of ours", "model idle, %", "lockstep's", "environments idle, %", "lockstep's",
        "CPU ms/turn", "servers' CPU ms/turn", "model only's", "KiB/episode",
    )  # fmt: skip
    for (count, latency), cell in of_cell.items():
        idle = [
            spread(cell.each(side, key), 0, 100)
            for key in ("model_idle", "world_idle")
            for side in ("ours", "lockstep")
        ]
        table.add_row(
            str(count), latency, *idle, spread(cell.per_turn("ours", "cpu_s"), 2, 1000),
            spread(cell.per_turn("ours", "servers_cpu_s"), 2, 1000),
            spread(cell.per_turn("model only", "servers_cpu_s"), 2, 1000),
            spread(cell.per_episode("ours", "memory_mib"), 0, 1024),
        )  # fmt: skip
    return table


def verdicts(of_cell: dict[tuple[int, str], Measured]) -> list[str]:
    """Measured beside target, for the settings that were played."""
    lines = []
    for (count, latency), cell in of_cell.items():
        if latency == "tail":
            lines.append(_verdict(f"times lockstep, tail, {count}", median(cell.times("lockstep")), TIMES_LOCKSTEP))
        if count == 256:
            lines.append(_verdict(f"of the bound, 256, {latency}", median(cell.of_bound()), OF_BOUND))
    for latency in dict.fromkeys(latency for _, latency in of_cell):
        if (16, latency) in of_cell and (1000, latency) in of_cell:
            small, large = (median(of_cell[count, latency].per_turn("ours", "cpu_s")) for count in (16, 1000))
            lines.append(_verdict(f"CPU an episode, 1000 over 16, {latency}", large / small, -COST_GROWTH))
    return lines


def _verdict(what: str, value: float, target: float) -> str:
    """A negative target is one to stay below."""
    met = value >= target if target > 0 else value <= -target
    return f"{what}: {value:.2f} (target {'>=' if target > 0 else '<='} {abs(target):g}: {'met' if met else 'missed'})"
