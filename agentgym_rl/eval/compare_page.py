"""A comparison as one HTML page that needs nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agentgym_rl.data.files import write_text
from agentgym_rl.eval.arms import Arm, differing
from agentgym_rl.eval.compare import Comparison, Estimate
from agentgym_rl.eval.compare_curves import learning_curves, share_curves, svg
from agentgym_rl.eval.compare_tables import any_rate, points, rate_text, seeds_text
from agentgym_rl.eval.html import Markup, join, tag
from agentgym_rl.eval.page_style import CSS
from agentgym_rl.eval.palette import DARK, GRID, INK, MUTED, SURFACE, look

ANY_COLOUR = re.compile("|".join(sorted({SURFACE, *DARK})))


def write_page(comparison: Comparison, path: Path) -> Path:
    """Write the page: tables, curves, and in what the configurations of the arms differ."""
    write_text(path, page(comparison))
    return path


def page(comparison: Comparison) -> str:
    """The page's HTML."""
    seeds = sorted({run.seed for run in comparison.runs})
    title = f"{len(comparison.runs)} run{'s' if len(comparison.runs) > 1 else ''} compared"
    body = tag(
        "main",
        tag(
            "header",
            tag("h1", title),
            tag(
                "p",
                f"{comparison.decoding} decoding, seeds {seeds_text(seeds)}. Hover a value to see each seed.",
                class_="lead",
            ),
        ),
        _success(comparison),
        _differences(comparison),
        _figure("Learning curves", "learning", learning_curves(comparison)),
        _figure("Shares of the worlds", "shares", share_curves(comparison)),
        _costs(comparison),
        _configurations(comparison),
        _runs(comparison),
    )
    head = join(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", title),
        Markup(f"<style>{_colours()}{CSS}</style>"),
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _success(comparison: Comparison) -> Markup:
    best = [
        max((cell.mean for row in comparison.success if (cell := row[number]) is not None), default=None)
        for number in range(len(comparison.columns))
    ]
    rows = []
    for number, (arm, cells) in enumerate(zip(comparison.arms, comparison.success, strict=True)):
        colour = _variable(look(comparison.arms, number)[0])
        shown = [_success_cell(cell, colour, top) for cell, top in zip(cells, best, strict=True)]
        rows.append([_arm(comparison, arm.label), tag("td", seeds_text(arm.seeds), class_="muted"), *shown])
    single = any(cell is not None and cell.over == "episodes" for row in comparison.success for cell in row)
    return _section(
        "Success, %",
        _table(comparison, ["arm", "seeds"], rows),
        "Mean over seeds with Student's 95% interval; dots are seeds, the scale runs from 0 to 100."
        + (" † marks a single seed: Wilson's 95% interval over its episodes." if single else ""),
    )


def _success_cell(cell: Estimate | None, colour: str, best: float | None) -> Markup:
    if cell is None:
        return tag("td", "-", class_="muted")
    low, high = cell.interval or (cell.mean, cell.mean)
    dagger = "†" if cell.over == "episodes" else ""
    interval = f"{100 * low:.0f} to {100 * high:.0f}{dagger}" if cell.interval is not None else ""
    return tag(
        "td",
        tag("span", f"{100 * cell.mean:.1f}", class_="value best" if cell.mean == best else "value"),
        tag("span", interval, class_="interval"),
        _strip(cell, low, high, 0.0, 1.0, colour),
        title=_seeds(cell, "{:.1f}"),
    )


def _differences(comparison: Comparison) -> Markup | None:
    if not comparison.differences:
        return None
    every = [cell for difference in comparison.differences for cell in difference.cells if cell is not None]
    reach = min(1.0, 1.15 * max((abs(value) for cell in every for value in cell.by_seed.values()), default=1.0) or 1.0)
    labels = [arm.label for arm in comparison.arms]
    rows = []
    for difference in comparison.differences:
        colour = _variable(look(comparison.arms, labels.index(difference.arm))[0])
        cells = []
        for cell in difference.cells:
            if cell is None:
                cells.append(tag("td", "-", class_="muted"))
                continue
            low, high = cell.interval or (cell.mean, cell.mean)
            note = f"{points(low, 0)} to {points(high, 0)}" if cell.interval is not None else "one seed"
            note += f", p {cell.p:.2g}" if cell.p is not None else ""
            cells.append(
                tag(
                    "td",
                    tag("span", points(cell.mean, 1), class_="value"),
                    tag("span", note, class_="interval"),
                    _strip(cell, low, high, -reach, reach, colour),
                    title=_seeds(cell, "{:+.1f}"),
                )
            )
        rows.append([_arm(comparison, difference.arm), tag("td", difference.baseline, class_="muted"), *cells])
    return _section(
        "Difference on the same seeds, points",
        _table(comparison, ["arm", "minus"], rows),
        "Mean of the paired differences with Student's 95% interval and the exact p value of flipping their signs, "
        "which for n seeds is never below 2/2ⁿ. The scale is centred on 0.",
    )


def _costs(comparison: Comparison) -> Markup | None:
    rows = []
    for arm, cost in zip(comparison.arms, comparison.costs, strict=True):
        if not any_rate(cost.per_minute):
            continue
        cells = [
            tag(
                "td",
                tag("span", rate_text(episodes), class_="value"),
                tag("span", rate_text(minutes), class_="interval"),
            )
            for episodes, minutes in zip(cost.per_1000_episodes, cost.per_minute, strict=True)
        ]
        spent = [tag("td", f"{cost.episodes:,.0f}"), tag("td", f"{cost.minutes:.1f}")]
        rows.append([_arm(comparison, arm.label), *spent, *cells])
    if not rows:
        return None
    return _section(
        "Points gained for what was spent",
        _table(comparison, ["arm", "episodes", "minutes"], rows),
        "Large: per 1,000 training episodes; small: per minute. Gains are over the stage before; "
        "the evaluation at the end of a stage is not counted as its time.",
    )


def _configurations(comparison: Comparison) -> Markup | None:
    kinds: dict[bool, list[Arm]] = {True: [], False: []}
    for arm in comparison.arms:
        if arm.stage not in ("untrained", "control"):
            kinds[arm.stage == "bc"].append(arm)
    drawn = [arm for kind in kinds.values() if len(kind) > 1 for arm in kind]
    keys = {key: None for kind in kinds.values() for key in differing([arm.config for arm in kind])}
    if not keys:
        return None
    rows = [
        [tag("th", key, scope="row", class_="key"), *(tag("td", _shown(arm, key), class_="code") for arm in drawn)]
        for key in keys
    ]
    heads = [tag("th", "key", scope="col"), *(_arm(comparison, arm.label, scope="col") for arm in drawn)]
    return _section("Configurations differ in", _plain_table(heads, rows), None)


def _runs(comparison: Comparison) -> Markup:
    rows = [
        [
            tag("th", run.name, scope="row"), tag("td", run.algorithm), tag("td", str(run.seed)),
            tag("td", f"{sum(stage['wall_s'] for stage in run.stages.values()) / 60:.1f}"),
            tag("td", str(run.folder), class_="code"),
        ]
        for run in comparison.runs
    ]  # fmt: skip
    heads = [tag("th", head, scope="col") for head in ("run", "algorithm", "seed", "minutes", "folder")]
    return tag("details", tag("summary", "Runs"), _plain_table(heads, rows))


def _figure(title: str, name: str, figure: Any) -> Markup | None:
    if figure is None:
        return None
    drawing = svg(figure)
    drawing = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", drawing)
    drawing = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 role="img" aria-label="{title}">', drawing, count=1
    )
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL).replace("xlink:href", "href")
    drawing = re.sub(r"font-family: [^;\"]*", "font-family: system-ui, sans-serif", drawing)
    drawing = ANY_COLOUR.sub(lambda colour: _variable(colour[0]), drawing)
    return _section(title, tag("figure", Markup(drawing)), None)


def _table(comparison: Comparison, heads: Sequence[str], rows: Iterable[Iterable[Markup]]) -> Markup:
    columns = [
        tag("th", column.env, tag("small", column.panel.replace("_", " ")), scope="col")
        for column in comparison.columns
    ]
    return _plain_table([*(tag("th", head, scope="col") for head in heads), *columns], rows)


def _plain_table(heads: Iterable[Markup], rows: Iterable[Iterable[Markup]]) -> Markup:
    body = tag("tbody", [tag("tr", list(row)) for row in rows])
    return tag("div", tag("table", tag("thead", tag("tr", list(heads))), body), class_="scroll")


def _section(title: str, content: Markup, note: str | None) -> Markup:
    return tag("section", tag("h2", title), content, tag("p", note, class_="note") if note else None)


def _arm(comparison: Comparison, label: str, scope: str = "row") -> Markup:
    number = [arm.label for arm in comparison.arms].index(label)
    dot = tag("i", style=f"background:{_variable(look(comparison.arms, number)[0])}")
    return tag("th", dot, label, scope=scope)


def _strip(cell: Estimate, low: float, high: float, start: float, end: float, colour: str) -> Markup:
    """Interval, mean and seeds on a scale from ``start`` to ``end``, 100 units wide."""

    def place(value: float) -> float:
        return round(100 * (min(max(value, start), end) - start) / (end - start), 2)

    seeds = [
        tag("circle", cx=place(value), cy=5, r=1.8, fill=colour, fill_opacity=0.55) for value in cell.by_seed.values()
    ]
    zero = tag("line", x1=place(0.0), x2=place(0.0), y1=0, y2=10, class_="axis")
    whisker = tag("line", x1=place(low), x2=place(high), y1=5, y2=5, stroke=colour, stroke_width=1.2)
    mean = tag("line", x1=place(cell.mean), x2=place(cell.mean), y1=1.5, y2=8.5, stroke=colour, stroke_width=2)
    track = tag("line", x1=0, x2=100, y1=5, y2=5, class_="axis")
    return tag("svg", track, zero, whisker, seeds, mean, viewBox="-2 0 104 10", class_="strip", aria_hidden="true")


def _seeds(cell: Estimate, form: str) -> str:
    return "; ".join(f"seed {seed}: {form.format(100 * value)}" for seed, value in cell.by_seed.items())


def _shown(arm: Arm, key: str) -> str:
    if key not in arm.config:
        return ""
    value = arm.config[key]
    return value if isinstance(value, str) else json.dumps(value)


def _variable(colour: str) -> str:
    return f"var(--c{colour[1:]})"


def _colours() -> str:
    """Every colour as a variable with a light and a dark value."""
    dark = DARK | {SURFACE: "#17171a"}
    light = "".join(f"--c{colour[1:]}:{colour};" for colour in dark)
    darker = "".join(f"--c{colour[1:]}:{other};" for colour, other in dark.items())
    names = (
        f"--surface:{_variable(SURFACE)};--ink:{_variable(INK)};--muted:{_variable(MUTED)};--grid:{_variable(GRID)};"
    )
    return f":root{{color-scheme:light dark;{light}{names}}}@media(prefers-color-scheme:dark){{:root{{{darker}}}}}"
