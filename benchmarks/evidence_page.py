"""Tables and pictures of ``benchmarks/evidence.py``, from its raw results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

from staleness import told
from studies import DOCS, Ordering, Side, Study

from agentgym_rl.eval import png
from agentgym_rl.eval.html.chart import Chart, Line
from agentgym_rl.eval.html.palette import ARMS
from agentgym_rl.eval.intervals import sign_flip_p, student

Rows = Sequence[Mapping[str, Any]]


def values(rows: Rows, side: Side, column: str) -> dict[int, float]:
    """Success in percent by seed."""
    arm, _, stage = (side if isinstance(side, str) else side[column]).partition("/")
    key = "control" if stage else "success"
    return {row["seed"]: 100 * row[key][column][0] for row in rows if row["arm"] == arm and row[key] is not None}


def averages(rows: Rows, side: Side, columns: Sequence[str]) -> dict[int, float]:
    """Mean over columns by seed."""
    found = [values(rows, side, column) for column in columns]
    return {seed: mean(one[seed] for one in found) for seed in found[0] if all(seed in one for one in found)}


def paired(better: Mapping[int, float], worse: Mapping[int, float]) -> list[float]:
    return [better[seed] - worse[seed] for seed in sorted(better.keys() & worse.keys())]


def cell(found: Sequence[float], signed: bool = False) -> str:
    """Mean and half of Student's 95% interval over seeds, which is symmetric."""
    if not found:
        return ""
    text = f"{mean(found):{'+' if signed else ''}.1f}"
    if len(found) > 1:
        low, high = student(found)
        text += f" ±{(high - low) / 2:.1f}"
    return text


def verdict(differences: Sequence[float]) -> str:
    """What the paired 95% interval of the average says."""
    if len(differences) < 3:
        return "too few seeds"
    low, high = student(differences)
    return "holds" if low > 0 else "reversed" if high < 0 else "not shown"


def arms_table(study: Study, rows: Rows) -> Iterator[str]:
    """Success of every arm, and what it took."""
    columns = list(study.columns)
    spent = {"episodes": "{:.0f}", "gradient_groups": "{:.2f}", "tokens": "{:.0f}", "minutes": "{:.1f}"}
    spent = {key: form for key, form in spent.items() if all(key in row for row in rows)}
    yield f"| arm | seeds | {' | '.join([*columns, 'average', *spent])} |"
    yield f"|---|---|{'---|' * (len(columns) + 1 + len(spent))}"
    for side in [side for arm in study.arms for side in (arm, f"{arm}/control")]:
        found = averages(rows, side, columns)
        if not found:
            continue
        cells = [cell(list(values(rows, side, column).values())) for column in columns]
        arm, _, control = side.partition("/")
        own = [row for row in rows if row["arm"] == arm]
        took = ["" if control else _mean(form, [row[key] for row in own]) for key, form in spent.items()]
        yield f"| {side} | {len(found)} | {' | '.join([*cells, cell(list(found.values())), *took])} |"


def _mean(form: str, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return form.format(mean(known)) if known else ""


def orderings_table(study: Study, rows: Rows, name: str) -> Iterator[str]:
    """Paired differences in percentage points."""
    columns = [] if name in study.averaged else list(study.columns)
    heads = ["claim", *columns, "average", "seeds in favour", "p", "verdict"]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for one in study.orderings[name]:
        found = differences(study, rows, one)
        if not found:
            continue
        cells = [
            cell(paired(values(rows, one.better, column), values(rows, one.worse, column)), signed=True)
            for column in columns
        ]
        p = f"{sign_flip_p(found):.3f}"
        yield f"| {' | '.join([one.claim, *cells, *averaged(found), p, verdict(found)])} |"


def differences(study: Study, rows: Rows, one: Ordering) -> list[float]:
    """Between the averages of the two sides, seed by seed."""
    return paired(*(averages(rows, side, list(study.columns)) for side in (one.better, one.worse)))


def averaged(found: Sequence[float]) -> tuple[str, str]:
    """Paired differences as two cells: their mean, and how many are in favour."""
    return cell(found, signed=True), f"{sum(value > 0 for value in found)} of {len(found)}"


def doubts(studies: Mapping[str, Study], rows: Mapping[str, Rows]) -> Iterator[str]:
    """The claims of all studies that do not hold: study, claim, average difference, seeds in favour, verdict."""
    for name, study in studies.items():
        for one in chain.from_iterable(study.orderings.values()):
            found = differences(study, rows[name], one)
            if found and verdict(found) != "holds":
                yield " | ".join([name, one.claim, *averaged(found), verdict(found)])


def page(study: Study, text: str, rows: Rows) -> str:
    """The page with its tables renewed; what stands around them is kept.

    Raises:
        ValueError: it has no place for one of them.
    """
    stale = told(rows)
    tables = {study.table: chain(arms_table(study, rows), [""] * bool(stale), stale)}
    tables |= {name: orderings_table(study, rows, name) for name in study.orderings}
    for name, lines in tables.items():
        text = with_table(text, name, "\n".join(lines) if rows else "No results yet.", study.page)
    return text


def with_table(text: str, name: str, table: str, where: Path) -> str:
    """A page's text with a table in its block.

    Raises:
        ValueError: it has no such block.
    """
    block = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not block.search(text):
        raise ValueError(f"{where} has no block '<!-- table {name} -->'")
    return block.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text)


def pictures(study: Study, rows: Rows) -> None:
    """Validation success over the tokens of training episodes."""
    for name, arms in study.curves.items():
        lines = []
        for colour, arm in zip(ARMS, arms, strict=False):
            seeds = [_curve(row["curve"]) for row in rows if row["arm"] == arm]
            if seeds:
                means = [[mean(point) for point in zip(*axis, strict=True)] for axis in zip(*seeds, strict=True)]
                lines += [Line("", colour, {"tokens": x}, y, thin=True) for x, y in seeds]
                lines.append(Line(arm, colour, {"tokens": means[0]}, means[1]))
        if lines:
            axes = {"tokens": "thousand tokens of training episodes"}
            chart = Chart("", axes, lines, 100.0, y_label="success on validation tasks, %")
            png.write(DOCS / "images" / f"{name}.png", [[(chart, "tokens")]])


def _curve(points: Sequence[tuple[int, int, float]]) -> tuple[list[float], list[float]]:
    """Thousand tokens, and success in percent."""
    return [spent / 1000 for _, spent, _ in points], [100 * success for *_, success in points]
