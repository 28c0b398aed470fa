"""Tables of a comparison as sections of a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from agentgym_rl.eval.comparison.arms import Arm, differing
from agentgym_rl.eval.comparison.compare import Comparison, Estimate
from agentgym_rl.eval.comparison.runs import Run
from agentgym_rl.eval.comparison.tables import any_rate, points, rate_text, seeds_text
from agentgym_rl.eval.html.chart import short
from agentgym_rl.eval.html.markup import Markup, tag
from agentgym_rl.eval.html.palette import look
from agentgym_rl.eval.html.style import variable

Link = Callable[[Run], str | None]
"""Address of a page with a run's episodes; None where there is none."""


def success_section(comparison: Comparison) -> Markup:
    """Success of every arm."""
    best = [
        max((cell.mean for row in comparison.success if (cell := row[number]) is not None), default=None)
        for number in range(len(comparison.columns))
    ]
    rows = []
    for number, (arm, cells) in enumerate(zip(comparison.arms, comparison.success, strict=True)):
        colour = variable(look(comparison.arms, number)[0])
        shown = [_success_cell(cell, colour, top) for cell, top in zip(cells, best, strict=True)]
        rows.append([_arm(comparison, arm.label), tag("td", seeds_text(arm.seeds), class_="muted seeds-of"), *shown])
    single = any(cell is not None and cell.over == "episodes" for row in comparison.success for cell in row)
    return _section(
        "Success, %",
        "success",
        _table("success", comparison, ["arm", "seeds"], rows),
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
        _seeds(cell, "{:.1f}"),
    )


def difference_section(comparison: Comparison) -> Markup | None:
    """Paired differences; None without any."""
    if not comparison.differences:
        return None
    every = [cell for difference in comparison.differences for cell in difference.cells if cell is not None]
    reach = min(1.0, 1.15 * max((abs(value) for cell in every for value in cell.by_seed.values()), default=1.0) or 1.0)
    labels = [arm.label for arm in comparison.arms]
    rows = []
    for difference in comparison.differences:
        colour = variable(look(comparison.arms, labels.index(difference.arm))[0])
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
                    _seeds(cell, "{:+.1f}"),
                )
            )
        rows.append([_arm(comparison, difference.arm), tag("td", difference.baseline, class_="muted"), *cells])
    return _section(
        "Difference on the same seeds, points",
        "differences",
        _table("differences", comparison, ["arm", "minus"], rows),
        "Mean of the paired differences with Student's 95% interval and the exact p value of flipping their signs, "
        "which for n seeds is never below 2/2ⁿ. The scale is centred on 0.",
    )


def cost_section(comparison: Comparison, tokens: Mapping[str, float]) -> Markup | None:
    """What stages spent and gained; None where none gained.

    Args:
        tokens: that an arm's training episodes had, by its label; mean over runs.
    """
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
        spent = [tag("td", f"{cost.episodes:,.0f}")]
        if tokens:
            spent.append(tag("td", short(tokens[arm.label]) if arm.label in tokens else "-"))
        spent.append(tag("td", f"{cost.minutes:.1f}"))
        rows.append([_arm(comparison, arm.label), *spent, *cells])
    if not rows:
        return None
    return _section(
        "Points gained for what was spent",
        "cost",
        _table("cost", comparison, ["arm", "episodes", *(["tokens"] if tokens else []), "minutes"], rows),
        "Large: per 1,000 training episodes; small: per minute. Gains are over the stage before; "
        "the evaluation at the end of a stage is not counted as its time.",
    )


def configuration_section(comparison: Comparison) -> Markup | None:
    """Settings in which arms differ; None where they do not."""
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
    return _section("Configurations differ in", "configuration", _plain_table("configurations", heads, rows), None)


def run_section(comparison: Comparison, link: Link | None) -> Markup:
    """Every run, with a link to its episodes where there is one."""
    rows = []
    for run in comparison.runs:
        address = link(run) if link is not None else None
        name = run.name if address is None else tag("a", run.name, href=address)
        minutes = sum(stage["wall_s"] for stage in run.stages.values()) / 60
        rows.append(
            [
                tag("th", name, scope="row"), tag("td", run.algorithm), tag("td", str(run.seed)),
                tag("td", f"{minutes:.1f}"), tag("td", str(run.folder), class_="code"),
            ]
        )  # fmt: skip
    heads = [tag("th", head, scope="col") for head in ("run", "algorithm", "seed", "minutes", "folder")]
    return _section("Runs", "runs", _plain_table("runs", heads, rows), None)


def _table(name: str, comparison: Comparison, heads: Sequence[str], rows: Iterable[Iterable[Markup]]) -> Markup:
    columns = [
        tag("th", column.env, tag("small", column.panel.replace("_", " ")), scope="col")
        for column in comparison.columns
    ]
    return _plain_table(name, [*(tag("th", head, scope="col") for head in heads), *columns], rows)


def _plain_table(name: str, heads: Iterable[Markup], rows: Iterable[Iterable[Markup]]) -> Markup:
    body = tag("tbody", [tag("tr", list(row)) for row in rows])
    table = tag("table", tag("thead", tag("tr", list(heads))), body)
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=f"{name}, table")


def _section(title: str, name: str, content: Markup, note: str | None) -> Markup:
    return tag("section", tag("h2", title), content, tag("p", note, class_="note") if note else None, id=name)


def _arm(comparison: Comparison, label: str, scope: str = "row") -> Markup:
    number = [arm.label for arm in comparison.arms].index(label)
    dot = tag("i", style=f"background:{variable(look(comparison.arms, number)[0])}")
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


def _seeds(cell: Estimate, form: str) -> Markup:
    """The value of each seed, which the page shows on demand."""
    values = [tag("span", f"seed {seed}: {form.format(100 * value)}") for seed, value in cell.by_seed.items()]
    return tag("small", values, class_="seeds")


def _shown(arm: Arm, key: str) -> str:
    if key not in arm.config:
        return ""
    value = arm.config[key]
    return value if isinstance(value, str) else json.dumps(value)
