"""A comparison as one HTML page that needs nothing else."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from urllib.parse import quote

from agentgym_rl.data.files import write_text
from agentgym_rl.eval.comparison.arms import Arm, differing, shown
from agentgym_rl.eval.comparison.budgets import budget_of
from agentgym_rl.eval.comparison.charts import (
    Figure,
    constants,
    env_looks,
    learning_figure,
    look,
    meaning,
    over_time,
    short,
)
from agentgym_rl.eval.comparison.compare import Comparison, Estimate
from agentgym_rl.eval.comparison.equal import at_equal_budgets
from agentgym_rl.eval.comparison.learning import AXES, arm_curves, online, plots
from agentgym_rl.eval.comparison.runs import Run
from agentgym_rl.eval.comparison.tables import (
    BOUNDS,
    ONE_RUN,
    ONE_SEED,
    cell_text,
    names_text,
    of_seeds,
    points,
    rate_text,
    remarks,
    seeds_text,
)
from agentgym_rl.eval.html import render, script
from agentgym_rl.eval.html.chart import Chart
from agentgym_rl.eval.training.curves import charts as training_charts

TRAINING = "A line a run, from its beginning, in its arm's colour; it ends where its stage does and where no value is."
Link = Callable[[Run], str | None]
"""Address of a page with a run's episodes; None where there is none."""


def write_page(comparison: Comparison, path: Path, link: Link | None = None) -> Path:
    """Write the page; see :func:`page`."""
    write_text(path, page(comparison, link))
    return path


def links(comparison: Comparison, episodes: Path, start: Path) -> Link:
    """Addresses of exported episodes, ``<episodes>/<run folder>/index.html``, as seen from the folder ``start``.

    Raises:
        FileNotFoundError: no run has any there.
    """
    files = {run.folder: episodes / run.folder.resolve().name / "index.html" for run in comparison.runs}
    there = {folder: file for folder, file in files.items() if file.is_file()}
    if not there:
        run, first = next(iter(files.items()))
        raise FileNotFoundError(
            f"{first} does not exist, nor do other runs' pages; export them: agentgym-rl view {run} --html "
            f"{first.parent}"
        )
    addresses = {folder: quote(os.path.relpath(file, start).replace(os.sep, "/")) for folder, file in there.items()}
    return lambda run: addresses.get(run.folder)


def page(comparison: Comparison, link: Link | None = None) -> str:
    """The page's HTML: bars, curves, tables, and the settings in which arms differ.

    Args:
        link: address of the episodes of a run, as seen from the page.
    """
    drawn = plots(comparison)
    sections = {
        "curves": _Section(
            "Learning curves", [learning_figure(comparison, plot) for plot in drawn], meaning(comparison, drawn)
        ),
        "shares": _over_time(
            comparison, "share", "Shares of the environments", "Share of a step's training episodes, %"
        ),
        "horizon": _over_time(comparison, "max_turns", "Turn limit", "Most turns of a training episode"),
    }
    if trained := _training(comparison):
        sections["training"] = _Section("Training", trained, TRAINING)
    figures = [figure for section in sections.values() for figure in section.figures]
    curves = {arm.label for plot in drawn for arm, _ in plot.curves}
    count = len(comparison.runs)
    return render(
        "comparison/page.html",
        script("html/charts.js"),
        [chart for section in sections.values() for chart in section.charts],
        title=f"{count} run{'s' if count > 1 else ''} compared",
        facts=_facts(comparison),
        comparison=comparison,
        arms=[_looks(comparison, number) for number in range(len(comparison.arms))],
        number={arm.label: number for number, arm in enumerate(comparison.arms)},
        bounds=comparison.bounds,
        names={arm.label: names_text(arm.names) for arm in comparison.arms},
        notes=(BOUNDS, ONE_SEED, ONE_RUN),
        remarks=remarks(comparison),
        arms_alone=any(len(arm.seeds) < 2 for arm in comparison.arms),
        reach=_reach(comparison),
        chips=[number for number, arm in enumerate(comparison.arms) if arm.label in curves],
        sections={name: section for name, section in sections.items() if section.shown},
        figures=figures,
        axes=list(AXES) if figures else [],
        known={axis for figure in figures for line in figure.chart.lines for axis in line.x},
        equal=at_equal_budgets(drawn),
        tokens=_tokens(comparison),
        budget=budget_of(comparison),
        configuration=_configuration(comparison),
        runs=[(run, link(run) if link else None) for run in comparison.runs],
        shown=shown, place=_place, zip=zip,
        cell_text=cell_text, of_seeds=of_seeds, points=points, rate_text=rate_text, seeds_text=seeds_text, short=short,
    )  # fmt: skip


def _training(comparison: Comparison) -> list[Figure]:
    """The metrics of all runs, in the colours of their arms."""
    names = [run.name for run in comparison.runs]
    called = {str(run.folder) if names.count(run.name) > 1 else run.name: run for run in comparison.runs}
    looks = {label: _look_of(comparison, run) for label, run in called.items()}
    drawn = training_charts({label: run.metrics for label, run in called.items()}, looks)
    return [Figure(measure.title, measure.note, chart, ()) for measure, chart in drawn]


def _look_of(comparison: Comparison, run: Run) -> tuple[str, str, int]:
    """Colour, line style and number of the arm of a run's algorithm, or of its newest stage."""
    arms = enumerate(comparison.arms)
    numbers = {arm.stage: number for number, arm in arms if any(run is member for member in arm.runs)}
    number = numbers.get(run.algorithm, list(numbers.values())[-1])
    return *look(comparison.arms, number), number


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    figures: Sequence[Figure]
    note: str
    key: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Colour and border style by what the lines are of; empty where the page's arms say it."""
    constants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Arms in which nothing varies, by their values in words."""

    @property
    def charts(self) -> list[Chart]:
        """Smaller where there are several, which stand beside each other."""
        charts = [figure.chart for figure in self.figures]
        return charts if len(charts) < 2 else [replace(chart, width=560, height=280) for chart in charts]

    @property
    def shown(self) -> bool:
        return bool(self.figures or self.constants)


def _over_time(comparison: Comparison, what: str, title: str, subject: str) -> _Section:
    """Empty for the share of a single environment, which is always 100%."""
    all_curves, percent = arm_curves(comparison, what), what == "share"
    looks = env_looks(all_curves)
    if percent and len(looks) < 2:
        all_curves, looks = [], {}
    note = f"{subject}: mean over seeds, band from the least to the greatest."
    key = {env: (colour, _border(dashes)) for env, (colour, dashes) in looks.items()}
    return _Section(title, over_time(title, all_curves, percent), note, key, constants(all_curves, percent))


def _looks(comparison: Comparison, number: int) -> dict[str, str]:
    colour, dashes = look(comparison.arms, number)
    return {"label": comparison.arms[number].label, "colour": colour, "border": _border(dashes)}


def _border(dashes: str) -> str:
    """The border style that looks most like a line style."""
    return {"-": "solid", "--": "dashed"}.get(dashes, "dotted")


def _place(value: float, start: float = 0.0, end: float = 1.0) -> float:
    """Where a value lies on a scale, in percent of its width."""
    return round(100 * (min(max(value, start), end) - start) / (end - start), 2)


def _reach(comparison: Comparison) -> float:
    """Where the scale of the differences ends, in both directions."""
    cells: list[Estimate] = [cell for pair in comparison.differences for cell in pair.cells if cell is not None]
    shown = (value for cell in cells for value in (*cell.by_seed.values(), *(cell.interval or ())))
    return min(1.0, 1.15 * max(map(abs, shown), default=1.0) or 1.0)


def _facts(comparison: Comparison) -> str:
    envs = list(dict.fromkeys(column.env for column in comparison.columns if len(column.parts) == 1))
    algorithms = list(dict.fromkeys(run.algorithm for run in comparison.runs))
    seeds = sorted({run.seed for run in comparison.runs})
    return (
        f"{', '.join(algorithms)} on {', '.join(envs)}; {len(comparison.arms)} arms, seeds {seeds_text(seeds)}, "
        f"{comparison.decoding} decoding{_going(comparison)}"
    )


def _going(comparison: Comparison) -> str:
    going = [run for run in comparison.runs if run.stage is not None]
    return f"; {len(going)} of {len(comparison.runs)} runs not finished" if going else ""


def _configuration(comparison: Comparison) -> tuple[list[Arm], list[str]]:
    """Arms whose settings differ, and those settings."""
    cloned = [arm for arm in comparison.arms if arm.stage == "bc"]
    trained = [arm for arm in comparison.arms if arm.stage not in ("untrained", "control", "bc")]
    kinds = [kind for kind in (trained, cloned) if len(kind) > 1]
    keys = dict.fromkeys(key for kind in kinds for key in differing([arm.config for arm in kind]))
    return [arm for kind in kinds for arm in kind], list(keys)


def _tokens(comparison: Comparison) -> dict[str, float]:
    """Tokens of the training episodes of each arm all of whose ended runs know them; mean over these."""
    spent = {}
    for arm in online(comparison):
        tokens = [max(run.tokens.values()) for run in arm.ended if run.tokens]
        if len(tokens) == len(arm.ended):
            spent[arm.label] = mean(tokens)
    return spent
