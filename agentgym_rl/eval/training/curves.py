"""Metrics of runs as charts: a line for each run, broken where a stage ends and where there is no value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from agentgym_rl.eval.html.chart import Chart, Line, spaced
from agentgym_rl.eval.units import Row, evaluates, is_finite, stage_of

AXES = {
    "steps": "step", "episodes": "training episodes", "tokens": "training tokens", "minutes": "minutes since the start",
}  # fmt: skip
"""What charts are drawn against, from the beginning of the run."""
_SPENT = {"episodes": ("run/episodes", 1), "tokens": ("run/tokens", 1), "minutes": ("run/wall_s", 60)}
"""Metric and divisor of an axis."""
MAX_POINTS, MIN_POINTS = 150, 20
"""Points of a run in a stage, evenly spaced; the fewer, the more runs lie over each other."""
OF_CHART = 6000
"""Points of a chart, about."""
SPEED = "tokens/s"
"""Name of the metric that :func:`with_speed` adds."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What a chart shows."""

    title: str
    keys: tuple[str, ...]
    """Names of the metric; the first that a row has counts."""
    note: str = ""
    percent: bool = False
    """The metric is a share."""
    evaluated: bool = False
    """It is of evaluations, which have rows of their own."""


OF_ENV = (
    ("success", "success", "training episodes", True),
    ("reward", "reward", "training episodes", False),
    ("turns", "turns", "of a training episode", False),
)  # fmt: skip
"""Metrics of an environment: key, title, note, whether it is a share."""
UPDATE = (
    Measure("tokens of a response", ("diagnostics/response_tokens",), "mean over turns"),
    Measure("entropy", ("actor/entropy",), "nats a token"),
    Measure("KL to the sampling weights", ("actor/ppo_kl",), "nats a token, over a step's updates"),
    Measure("KL to the reference", ("actor/kl_loss",), "as the loss estimates it"),
    Measure("clipped tokens", ("actor/pg_clipfrac",), "share of a step's", percent=True),
    Measure("gradient norm", ("actor/grad_norm", "supervised/grad_norm"), "before clipping"),
    Measure("groups with a gradient", ("rollout/gradient_groups",), "rewards differ", percent=True),
    Measure("staleness", ("rollout/staleness",), "updates between rollout and learning"),
    Measure("tokens a second", (SPEED,), "prompt and response, of the whole step"),
    Measure("memory of the device", ("actor/perf/max_memory_allocated_gb",), "GB, most allocated"),
    Measure("memory of the machine", ("actor/perf/cpu_memory_used_gb",), "GB"),
)


def measures(runs: Mapping[str, Sequence[Row]]) -> list[Measure]:
    """What some of the runs have a value of: evaluations and training episodes by environment, then the update."""
    names = {name for rows in runs.values() for row in rows for name in row}
    of_panels = []
    for panel, env in sorted(_split(name) for name in names if name.startswith("val/") and name.endswith("/success")):
        of_panels.append(
            Measure(f"{env}: success", (f"val/{panel}/{env}/success",), panel.replace("_", " "), True, True)
        )
    envs = sorted({name.split("/")[1] for name in names if name.startswith("env/")})
    of_panels += [
        Measure(f"{env}: {title}", (f"env/{env}/{key}",), note, percent)
        for key, title, note, percent in OF_ENV
        for env in envs
    ]
    return [measure for measure in (*of_panels, *UPDATE) if names.intersection(measure.keys)]


def charts(runs: Mapping[str, Sequence[Row]], looks: Mapping[str, tuple[str, str, int]]) -> list[tuple[Measure, Chart]]:
    """A chart for each measure that has a finite value.

    Args:
        runs: rows of ``metrics.jsonl`` by what a run is called.
        looks: colour, line style and key of its lines.
    """
    timed = {label: with_speed(rows) for label, rows in runs.items()}
    kinds = {
        kind: {label: [row for row in rows if evaluates(row) == kind] for label, rows in timed.items()}
        for kind in (False, True)
    }
    most = max(MIN_POINTS, min(MAX_POINTS, OF_CHART // max(1, len(runs))))
    drawn = []
    for measure in measures(timed):
        lines = [
            line
            for label, rows in kinds[measure.evaluated].items()
            for line in _lines(label, rows, measure, most, *looks[label])
        ]
        if lines:
            drawn.append((measure, _chart(measure, lines)))
    return drawn


def with_speed(rows: Sequence[Row]) -> list[Row]:
    """Rows with the tokens that a unit has trained on, by second: both since the row before."""
    timed = list(rows[:1])
    for before, row in pairwise(rows):
        spent = [row.get(key, 0) - before.get(key, 0) for key in ("run/tokens", "run/wall_s")]
        speed = {SPEED: spent[0] / spent[1]} if min(spent) > 0 and not evaluates(row) else {}
        timed.append({**row, **speed})
    return timed


def _chart(measure: Measure, lines: Sequence[Line]) -> Chart:
    values = [value for line in lines for value in line.y]
    highest, lowest = max(values), min(values)
    top = min(100.0, max(5.0, 1.08 * highest)) if measure.percent else 1.08 * max(highest, 0.0)
    bottom = 1.08 * min(lowest, 0.0)
    axes = {axis: AXES[axis] for axis in AXES if any(axis in line.x for line in lines)}
    return Chart(f"{measure.title}, {measure.note}", axes, lines, top if top > bottom else 1.0, width=560, height=260,
                 y_label="%" if measure.percent else "", bottom=bottom)  # fmt: skip


def _lines(
    label: str, rows: Sequence[Row], measure: Measure, most: int, colour: str, dashes: str, key: int
) -> Iterator[Line]:
    scale = 100.0 if measure.percent else 1.0
    for _, group in groupby(rows, stage_of):
        of_stage = [(row, _value(row, measure)) for row in group]
        valued = [(place, row, value) for place, (row, value) in enumerate(of_stage) if value is not None]
        gaps_before = [place - number for number, (place, _, _) in enumerate(valued)]
        for _, numbers in groupby(spaced(len(valued), most), gaps_before.__getitem__):
            piece = [valued[number] for number in numbers]
            y = [_short(scale * value) for _, _, value in piece]
            yield Line(label, colour, _x([row for _, row, _ in piece]), y, dashes=dashes, key=key)


def _x(rows: Sequence[Row]) -> dict[str, list[float]]:
    spent = {
        axis: [_short(row[key] / divisor) for row in rows]
        for axis, (key, divisor) in _SPENT.items()
        if all(key in row for row in rows)
    }
    return {"steps": [row["step"] for row in rows], **spent}


def _value(row: Row, measure: Measure) -> float | None:
    """None where there is none, or it is not finite."""
    value = next((row[key] for key in measure.keys if key in row), None)
    return float(value) if is_finite(value) else None


def _split(name: str) -> tuple[str, str]:
    """Panel and environment of ``val/<panel>/<env>/success``; a panel's name may hold slashes."""
    panel, env = name.removeprefix("val/").removesuffix("/success").rsplit("/", 1)
    return panel, env


def _short(value: float) -> float:
    """Six digits are more than can be seen."""
    return float(f"{value:.6g}")
