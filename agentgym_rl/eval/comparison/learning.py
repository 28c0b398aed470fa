"""Learning curves of an arm: success over what training has spent, mean and range over seeds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import fmean as mean
from typing import Any

from agentgym_rl.eval.comparison.arms import Arm
from agentgym_rl.eval.comparison.compare import Column, Comparison, stage_before, success
from agentgym_rl.eval.comparison.runs import Run
from agentgym_rl.eval.html.chart import spaced

AXES = {
    "episodes": "training episodes", "tokens": "training tokens", "updates": "updates", "minutes": "minutes",
    "steps": "training steps",
}  # fmt: skip
"""What curves are drawn against."""
UPDATES, SECONDS = "run/stage_updates", "run/stage_training_s"
SMOOTH = 12
"""Points from which a curve is smoothed."""
DRAWN = 500
"""Most points of a curve that are drawn."""
ENOUGH = 3
"""Points from which a curve of evaluations is one; two are its ends only."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Mean over seeds at every step that all of them have."""

    x: Mapping[str, tuple[float, ...]]
    """By axis, counted from the start of the stage; without tokens or updates where not all seeds know them."""
    mean: tuple[float, ...]
    low: tuple[float, ...]
    """Least of the seeds."""
    high: tuple[float, ...]
    seeds: int
    """Seeds that have the metric."""
    gaps: tuple[int, ...] = ()
    """Places of points before which a seed has a step without a value."""

    @property
    def thinned(self) -> Curve:
        """The points that are drawn; a gap stays where one lies between two of them."""
        places = spaced(len(self.mean), DRAWN)
        before = [bisect_right(self.gaps, place) for place in places]
        return Curve(
            x={axis: tuple(along[place] for place in places) for axis, along in self.x.items()},
            mean=tuple(self.mean[place] for place in places),
            low=tuple(self.low[place] for place in places),
            high=tuple(self.high[place] for place in places),
            seeds=self.seeds,
            gaps=tuple(place for place, (first, last) in enumerate(pairwise(before), start=1) if first < last),
        )

    @property
    def pieces(self) -> list[Curve]:
        """The curve without its gaps: a line joins the points of a piece."""
        ends = pairwise([0, *self.gaps, len(self.mean)])
        return [
            Curve(
                x={axis: places[start:end] for axis, places in self.x.items()},
                mean=self.mean[start:end],
                low=self.low[start:end],
                high=self.high[start:end],
                seeds=self.seeds,
            )
            for start, end in ends
        ]

    @property
    def varies(self) -> bool:
        """Whether the mean is not the same at all steps."""
        return max(self.mean) - min(self.mean) > 1e-6

    @property
    def smoothed(self) -> Curve | None:
        """Moving means over a tenth of the points, at least three; None for a curve of few points."""
        if len(self.mean) < SMOOTH:
            return None
        reach = max(1, len(self.mean) // 20)
        mean_, low, high = (_moving(values, reach) for values in (self.mean, self.low, self.high))
        return replace(self, mean=mean_, low=low, high=high)


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
    n: int | None = None
    """Episodes of a point, about; None where that is not known."""

    @property
    def followed(self) -> bool:
        """Whether some curve has points between its ends."""
        return any(len(curve.mean) >= ENOUGH for _, curve in self.curves)


def online(comparison: Comparison) -> list[Arm]:
    """Arms whose stage spends training episodes."""
    return [
        arm
        for arm, cost in zip(comparison.arms, comparison.costs, strict=True)
        if cost.episodes > 0 and arm.stage not in ("untrained", "bc", "control")
    ]


def plots(comparison: Comparison) -> list[Plot]:
    """A plot per panel that is evaluated during training; for an environment without one, of its training episodes.

    Where there is neither, only the evaluations at both ends are drawn.
    """
    arms = online(comparison)
    panels: dict[str, list[str]] = {}
    for env, label in {panel: None for arm in arms for run in arm.runs for panel in run.digests}:
        panels.setdefault(env, []).append(label)
    prefix = "" if comparison.decoding == "sampled" else "greedy_"
    all_plots: list[Plot] = []
    for env, labels in panels.items():
        evaluated = [
            Plot(
                env, label, _curves(arms, f"val/{label}/{env}/{prefix}success"), _controls(comparison, env, label),
                _tasks(comparison, env, label),
            )
            for label in labels
        ]  # fmt: skip
        training = Plot(env, None, _curves(arms, f"env/{env}/success"), n=_a_step(arms, env))
        all_plots += [plot for plot in evaluated if plot.followed] or ([training] if training.followed else evaluated)
    return [plot for plot in all_plots if plot.curves]


def arm_curves(comparison: Comparison, what: str) -> list[ArmCurves]:
    """Curves of what is known of each environment, such as its ``share`` in a step's episodes or its ``max_turns``."""
    all_curves: list[ArmCurves] = []
    for arm in online(comparison):
        envs = sorted({env for run in arm.runs for env, _ in run.digests})
        curves = {env: line for env in envs if (line := curve(arm, f"env/{env}/{what}")) is not None}
        if curves:
            all_curves.append((arm, curves))
    return all_curves


def curve(arm: Arm, key: str) -> Curve | None:
    """The curve of a metric, from the end of the stage before; None where no run has it."""
    by_run = [by_step for run in arm.runs if (by_step := _points(run, arm.stage, key))]
    steps = sorted(set.intersection(*(set(points) for points in by_run))) if by_run else []
    if not steps:
        return None
    at = [[points[step] for points in by_run] for step in steps]
    axes = [axis for axis in AXES if all(axis in x for points in at for _, x in points)]
    values = [[value for value, _ in points] for points in at]
    missing = sorted({step for run in arm.runs for step in _missing(run, arm.stage, key)})
    joined = pairwise(steps)
    return Curve(
        x={axis: tuple(mean(x[axis] for _, x in points) for points in at) for axis in axes},
        mean=tuple(map(mean, values)),
        low=tuple(map(min, values)),
        high=tuple(map(max, values)),
        seeds=len(by_run),
        gaps=tuple(
            place
            for place, (first, last) in enumerate(joined, start=1)
            if bisect_right(missing, first) < bisect_left(missing, last)
        ),
    )


def _points(run: Run, stage: str, key: str) -> dict[int, tuple[float, dict[str, float]]]:
    """Value and x of the points by step, all counted from where the stage starts.

    Episodes are counted back from the stage's last unit, at which it has spent what the summary reports. Minutes are of
    training alone; those of runs that did not log them are counted back, too, and hold evaluations. An evaluation
    stands at the time of the weights that it evaluates.
    """
    rows, before = _rows(run, stage)
    units = {row["step"]: row for row in run.units if f"stage/{stage}" in row}
    if not units:
        return {}
    origin = before[0]["step"] if before else 0
    spent, end = run.stages[stage], units[max(units)]
    unknown = {"tokens": run.tokens is None, "updates": UPDATES not in end}
    start = {axis: 0.0 for axis in AXES if not unknown.get(axis)}
    points = {row["step"] - origin: (row[key], start) for row in before if key in row}
    for row in rows:
        step = row["step"]
        if key in row and step in units:
            back = spent["wall_s"] - (end["run/wall_s"] - units[step]["run/wall_s"])
            x = {
                "episodes": max(0.0, spent["episodes"] - (end["run/episodes"] - units[step]["run/episodes"])),
                "minutes": max(0.0, units[step].get(SECONDS, back)) / 60,
                "steps": step - origin,
            }
            if run.tokens is not None and step in run.tokens:
                x["tokens"] = run.tokens[step]
            if UPDATES in units[step]:
                x["updates"] = units[step][UPDATES]
            points[step - origin] = row[key], x
    return points


def _missing(run: Run, stage: str, key: str) -> list[int]:
    """Steps, counted from where the stage starts, that have a metric of other environments only."""
    head, _, tail = key.rsplit("/", 2)
    rows, before = _rows(run, stage)
    origin = before[0]["step"] if before else 0
    return [
        row["step"] - origin
        for row in rows
        if key not in row and any(name.startswith(f"{head}/") and name.endswith(f"/{tail}") for name in row)
    ]


def _rows(run: Run, stage: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The rows of a stage, and the last row of the stage before, where there is one."""
    rows: list[Mapping[str, Any]] = [row for row in run.metrics if f"stage/{stage}" in row]
    before: list[Mapping[str, Any]] = [row for row in run.metrics if f"stage/{stage_before(run, stage)}" in row]
    return rows, before[-1:]


def _curves(arms: Sequence[Arm], key: str) -> tuple[tuple[Arm, Curve], ...]:
    return tuple((arm, line) for arm in arms if (line := curve(arm, key)) is not None)


def _controls(comparison: Comparison, env: str, label: str) -> tuple[tuple[str, float, float], ...]:
    column = Column(env, label, ((env, label, 1.0),))
    controls = []
    for arm in comparison.arms:
        of = [
            other.label
            for other in online(comparison)
            if arm.stage == "control" and other.config == arm.config and any(run is arm.runs[0] for run in other.runs)
        ]
        cell = success(arm, column, comparison.decoding)
        if of and cell is not None:
            controls.append((of[0], mean(_minutes(run, arm.stage) for run in arm.ended), cell.mean))
    return tuple(controls)


def _minutes(run: Run, stage: str) -> float:
    """Of a whole stage, as the points of curves have them; see :func:`_points`."""
    trained = [row[SECONDS] for row in _rows(run, stage)[0] if SECONDS in row]
    seconds: float = trained[-1] if trained else run.stages[stage]["wall_s"]
    return seconds / 60


def _tasks(comparison: Comparison, env: str, label: str) -> int | None:
    """Episodes of an evaluation."""
    results = (stage["panels"].get(label, {}).get(env, {}) for run in comparison.runs for stage in run.stages.values())
    return next((result[comparison.decoding]["n"] for result in results if comparison.decoding in result), None)


def _a_step(arms: Sequence[Arm], env: str) -> int | None:
    """Training episodes of a step."""
    shares = [line for arm in arms if (line := curve(arm, f"env/{env}/share")) is not None]
    a_step = [mean(share.mean) * share.x["episodes"][-1] / len(share.mean) for share in shares]
    return round(mean(a_step)) if a_step else None


def _moving(values: Sequence[float], reach: int) -> tuple[float, ...]:
    """The mean of each value and its neighbours, as many on either side; fewer at both ends."""
    sums = [*accumulate(values, initial=0.0)]
    reaches = [min(reach, at, len(values) - 1 - at) for at in range(len(values))]
    return tuple((sums[at + own + 1] - sums[at - own]) / (2 * own + 1) for at, own in enumerate(reaches))
