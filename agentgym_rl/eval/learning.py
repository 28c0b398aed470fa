"""Learning curves of an arm: success over what training has spent, mean and range over seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from agentgym_rl.eval.arms import Arm
from agentgym_rl.eval.compare import Column, Comparison, stage_before, success
from agentgym_rl.eval.runs import Run

Rows = Sequence[Mapping[str, Any]]
"""The metrics of a run."""

ENOUGH = 3
"""Points from which a curve of evaluations is one; two are its ends only."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Mean over seeds at every step that all of them have; x counts from the start of the stage."""

    steps: tuple[int, ...]
    episodes: tuple[float, ...]
    minutes: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    """Least of the seeds."""
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """The curves of a panel, or of the training episodes of a world."""

    env: str
    panel: str | None
    """None for training episodes."""
    curves: tuple[tuple[Arm, Curve], ...]
    controls: tuple[tuple[str, float, float], ...] = ()
    """Label of an arm, and minutes and success of its control."""

    @property
    def followed(self) -> bool:
        """Whether some curve has points between its ends."""
        return any(len(curve.steps) >= ENOUGH for _, curve in self.curves)


def online(comparison: Comparison) -> list[Arm]:
    """Arms whose stage spends training episodes."""
    return [
        arm
        for arm, cost in zip(comparison.arms, comparison.costs, strict=True)
        if cost.episodes > 0 and arm.stage not in ("untrained", "bc", "control")
    ]


def plots(comparison: Comparison) -> list[Plot]:
    """A plot for each panel that is played during training; for a world without one, of its training episodes.

    Ends of evaluations only are drawn where there is neither.
    """
    arms = online(comparison)
    rows = {run.folder: run.metrics() for arm in arms for run in arm.runs}
    panels: dict[str, list[str]] = {}
    for env, label in {panel: None for arm in arms for run in arm.runs for panel in run.digests}:
        panels.setdefault(env, []).append(label)
    prefix = "" if comparison.decoding == "sampled" else "greedy_"
    found: list[Plot] = []
    for env, labels in panels.items():
        evaluated = [
            Plot(
                env,
                label,
                _curves(arms, rows, f"val/{label}/{env}/{prefix}success"),
                _controls(comparison, env, label),
            )
            for label in labels
        ]
        training = Plot(env, None, _curves(arms, rows, f"env/{env}/success"))
        found += [plot for plot in evaluated if plot.followed] or ([training] if training.followed else evaluated)
    return [plot for plot in found if plot.curves]


def shares(comparison: Comparison) -> list[tuple[Arm, dict[str, Curve]]]:
    """Shares of the worlds over the steps of each arm in which they vary."""
    found = []
    for arm in online(comparison):
        rows = {run.folder: run.metrics() for run in arm.runs}
        envs = sorted({env for run in arm.runs for env, _ in run.digests})
        curves = {env: curve(arm, [(run, rows[run.folder]) for run in arm.runs], f"env/{env}/share") for env in envs}
        drawn = {env: found for env, found in curves.items() if found is not None}
        if any(max(one.mean) - min(one.mean) > 1e-6 for one in drawn.values()):
            found.append((arm, drawn))
    return found


def curve(arm: Arm, runs: Sequence[tuple[Run, Rows]], key: str) -> Curve | None:
    """The curve of a metric, from the end of the stage before; None where no run has it."""
    by_run = [found for found in (_points(run, arm.stage, rows, key) for run, rows in runs) if found]
    steps = sorted(set.intersection(*(set(points) for points in by_run))) if by_run else []
    if not steps:
        return None
    at = [[points[step] for points in by_run] for step in steps]
    return Curve(
        steps=tuple(steps),
        episodes=tuple(mean(one[0] for one in points) for points in at),
        minutes=tuple(mean(one[1] for one in points) for points in at),
        mean=tuple(mean(one[2] for one in points) for points in at),
        low=tuple(min(one[2] for one in points) for points in at),
        high=tuple(max(one[2] for one in points) for points in at),
    )


def _points(run: Run, stage: str, rows: Rows, key: str) -> dict[int, tuple[float, float, float]]:
    """(episodes, minutes, value) by step, all counted from where the stage starts.

    Counted back from the stage's last unit, at which it has spent what the summary says: weights taken from a cache
    bring the clock of the run that made them. An evaluation stands at the time of the weights it plays.
    """
    own = [row for row in rows if f"stage/{stage}" in row]
    units = {row["step"]: row for row in own if not any(name.startswith("val/") for name in row)}
    if not units:
        return {}
    before = [row for row in rows if f"stage/{stage_before(run, stage)}" in row][-1:]
    origin = before[0]["step"] if before else 0
    spent, end = run.stages[stage], units[max(units)]
    points = {row["step"] - origin: (0.0, 0.0, row[key]) for row in before if key in row}
    for row in own:
        if key in row and row["step"] in units:
            unit = units[row["step"]]
            episodes = spent["episodes"] - (end["run/episodes"] - unit["run/episodes"])
            seconds = spent["wall_s"] - (end["run/wall_s"] - unit["run/wall_s"])
            points[row["step"] - origin] = (max(0.0, episodes), max(0.0, seconds / 60), row[key])
    return points


def _curves(arms: Sequence[Arm], rows: Mapping[Path, Rows], key: str) -> tuple[tuple[Arm, Curve], ...]:
    drawn = [(arm, curve(arm, [(run, rows[run.folder]) for run in arm.runs], key)) for arm in arms]
    return tuple((arm, found) for arm, found in drawn if found is not None)


def _controls(comparison: Comparison, env: str, label: str) -> tuple[tuple[str, float, float], ...]:
    column = Column(env, label, ((env, label, 1.0),))
    labels = {json.dumps(arm.config, sort_keys=True): arm.label for arm in online(comparison)}
    found = []
    for arm, cost in zip(comparison.arms, comparison.costs, strict=True):
        key = json.dumps(arm.config, sort_keys=True)
        cell = success(arm, column, comparison.decoding)
        if arm.stage == "control" and key in labels and cell is not None:
            found.append((labels[key], cost.minutes, cell.mean))
    return tuple(found)
