"""Learning curves of an arm: success over what training has spent, mean and range over seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from agentgym_rl.eval.comparison.arms import Arm
from agentgym_rl.eval.comparison.compare import Column, Comparison, stage_before, success
from agentgym_rl.eval.comparison.logs import Log

ENOUGH = 3
"""Points from which a curve of evaluations is one; two are its ends only."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Mean over seeds at every step that all of them have; x counts from the start of the stage."""

    steps: tuple[int, ...]
    episodes: tuple[float, ...]
    tokens: tuple[float, ...] | None
    """None where they are not known of all seeds."""
    minutes: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    """Least of the seeds."""
    high: tuple[float, ...]
    seeds: int
    """Seeds that have the metric."""

    def along(self, axis: str) -> tuple[float, ...] | None:
        """x of one of the axes; None where it is not known."""
        places = {"episodes": self.episodes, "tokens": self.tokens, "minutes": self.minutes, "steps": self.steps}
        return places[axis]

    @property
    def varies(self) -> bool:
        """Whether the mean is not the same at all steps."""
        return max(self.mean) - min(self.mean) > 1e-6


ArmCurves = tuple[Arm, Mapping[str, Curve]]
"""An arm and a curve for each of its environments."""


@dataclass(frozen=True, slots=True)
class Plot:
    """The curves of a panel, or of the training episodes of an environment."""

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


def logs(comparison: Comparison) -> dict[Path, Log]:
    """What the runs with training episodes wrote down, by folder."""
    return {run.folder: Log.of(run) for arm in online(comparison) for run in arm.runs}


def plots(comparison: Comparison, logs: Mapping[Path, Log]) -> list[Plot]:
    """A plot per panel that is evaluated during training; for an environment without one, of its training episodes.

    Where there is neither, only the evaluations at both ends are drawn.
    """
    arms = online(comparison)
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
                _curves(arms, logs, f"val/{label}/{env}/{prefix}success"),
                _controls(comparison, env, label),
            )
            for label in labels
        ]
        training = Plot(env, None, _curves(arms, logs, f"env/{env}/success"))
        found += [plot for plot in evaluated if plot.followed] or ([training] if training.followed else evaluated)
    return [plot for plot in found if plot.curves]


def shares(comparison: Comparison, logs: Mapping[Path, Log]) -> list[ArmCurves]:
    """Shares of the environments in a step's episodes, of each arm."""
    return _arm_curves(comparison, logs, "share")


def turn_limits(comparison: Comparison, logs: Mapping[Path, Log]) -> list[ArmCurves]:
    """Turn limits of the environments' training episodes, of each arm."""
    return _arm_curves(comparison, logs, "max_turns")


def curve(arm: Arm, logs: Sequence[Log], key: str) -> Curve | None:
    """The curve of a metric, from the end of the stage before; None where no run has it."""
    by_run = [found for found in (_points(log, arm.stage, key) for log in logs) if found]
    steps = sorted(set.intersection(*(set(points) for points in by_run))) if by_run else []
    if not steps:
        return None
    at = [[points[step] for points in by_run] for step in steps]
    tokens = [[one.tokens for one in points if one.tokens is not None] for points in at]
    return Curve(
        steps=tuple(steps),
        episodes=tuple(mean(one.episodes for one in points) for points in at),
        tokens=tuple(map(mean, tokens)) if all(len(known) == len(by_run) for known in tokens) else None,
        minutes=tuple(mean(one.minutes for one in points) for points in at),
        mean=tuple(mean(one.value for one in points) for points in at),
        low=tuple(min(one.value for one in points) for points in at),
        high=tuple(max(one.value for one in points) for points in at),
        seeds=len(by_run),
    )


@dataclass(frozen=True, slots=True)
class _Point:
    episodes: float
    tokens: float | None
    minutes: float
    value: float


def _points(log: Log, stage: str, key: str) -> dict[int, _Point]:
    """Points by step, all counted from where the stage starts.

    Episodes and minutes are counted back from the stage's last unit, at which it has spent what the summary reports:
    weights taken from a cache bring the clock of the run that made them. An evaluation stands at the time of the
    weights that it evaluates.
    """
    own = [row for row in log.rows if f"stage/{stage}" in row]
    units = {row["step"]: row for row in own if not any(name.startswith("val/") for name in row)}
    if not units:
        return {}
    before = [row for row in log.rows if f"stage/{stage_before(log.run, stage)}" in row][-1:]
    origin = before[0]["step"] if before else 0
    spent, end = log.run.stages[stage], units[max(units)]
    known = log.tokens is not None
    points = {row["step"] - origin: _Point(0.0, 0.0 if known else None, 0.0, row[key]) for row in before if key in row}
    for row in own:
        if key in row and row["step"] in units:
            unit = units[row["step"]]
            points[row["step"] - origin] = _Point(
                episodes=max(0.0, spent["episodes"] - (end["run/episodes"] - unit["run/episodes"])),
                tokens=log.tokens.get(row["step"]) if log.tokens is not None else None,
                minutes=max(0.0, (spent["wall_s"] - (end["run/wall_s"] - unit["run/wall_s"])) / 60),
                value=row[key],
            )
    return points


def _curves(arms: Sequence[Arm], logs: Mapping[Path, Log], key: str) -> tuple[tuple[Arm, Curve], ...]:
    drawn = [(arm, curve(arm, [logs[run.folder] for run in arm.runs], key)) for arm in arms]
    return tuple((arm, found) for arm, found in drawn if found is not None)


def _arm_curves(comparison: Comparison, logs: Mapping[Path, Log], what: str) -> list[ArmCurves]:
    found: list[ArmCurves] = []
    for arm in online(comparison):
        own = [logs[run.folder] for run in arm.runs]
        envs = sorted({env for run in arm.runs for env, _ in run.digests})
        curves = {env: curve(arm, own, f"env/{env}/{what}") for env in envs}
        drawn = {env: one for env, one in curves.items() if one is not None}
        if drawn:
            found.append((arm, drawn))
    return found


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
