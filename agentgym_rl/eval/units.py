"""Rows of ``metrics.jsonl`` that are units of a stage: an epoch, a training step, an exploration."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, TypeGuard

Row = Mapping[str, Any]
"""One row; ``docs/wandb.md`` lists its keys."""

UNITS = "run/units"
"""Metric with the number of units of the stage that a row belongs to; rows of evaluations have none."""
COUNTERS = ("run/", "stage/")
"""How the names of metrics begin that say where in the run a row is."""
_STAGE = "stage/"


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number: others have no place in a chart and no word in JSON."""
    return isinstance(value, int | float) and isfinite(value)


def finite(row: Row) -> Row:
    """The finite numbers of a row."""
    return {key: value for key, value in row.items() if is_finite(value)}


def evaluates(row: Row) -> bool:
    """Whether a row is of an evaluation."""
    return any(name.startswith("val/") for name in row)


def stage_of(row: Row) -> str | None:
    """The stage that a row is of."""
    return next((key.removeprefix(_STAGE) for key in row if key.startswith(_STAGE)), None)


def by_stage(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The units of each stage, in their order."""
    stages: dict[str, list[Row]] = {}
    for row in rows:
        stage = stage_of(row)
        if stage is not None and UNITS in row:
            stages.setdefault(stage, []).append(row)
    return stages


def by_env(row: Row, name: str) -> dict[str, float]:
    """The metric ``env/<env>/<name>`` of every environment that has it."""
    start, end = "env/", f"/{name}"
    return {
        key.removeprefix(start).removesuffix(end): value
        for key, value in row.items()
        if key.startswith(start) and key.endswith(end)
    }


def number(row: Row, stage: str) -> int:
    """How many units of the stage are done."""
    return int(row[f"{_STAGE}{stage}"])


def left_s(units: Sequence[Row], stage: str) -> float | None:
    """Seconds that the rest of a stage takes at the pace of these units of it; None before the second one."""
    if len(units) < 2:
        return None
    first, last = units[0], units[-1]
    done = number(last, stage) - number(first, stage)
    pace = (last["run/wall_s"] - first["run/wall_s"]) / done if done else 0.0
    return float(pace * (last[UNITS] - number(last, stage)))
