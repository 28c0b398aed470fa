"""Tables and pictures of ``benchmarks/evidence.py``, from its raw results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from os.path import relpath
from pathlib import Path
from statistics import mean
from typing import Any

from claims import AVERAGE, DESIGNS, on_page
from staleness import remarks, why
from studies import DOCS, STUDIES, Ordering, Side, Study

from agentgym_rl.eval import png
from agentgym_rl.eval.by_seed import Panel, Panels, difference, of_tasks, value
from agentgym_rl.eval.comparison.equal import equal
from agentgym_rl.eval.comparison.learning import Curve
from agentgym_rl.eval.crossed import SEEDS_ALONE, TaskVariance, crossed, crossed_p, holm
from agentgym_rl.eval.html.chart import Chart, Line
from agentgym_rl.eval.html.palette import ARMS

Rows = Sequence[Mapping[str, Any]]
BySeed = Mapping[int, Panels]
"""Success on each panel, or a difference of it."""
OVERVIEW = DOCS / "evidence.md"
"""The page that has the claims of all studies."""


def seeds_of(study: Study, rows: Rows, side: Side, columns: Sequence[str]) -> dict[int, Panels]:
    """Success on the columns by seed, each with the same weight; seeds that have all of them."""
    of_columns = [_column(study, rows, side, column, 1 / len(columns)) for column in columns]
    return {
        seed: tuple(panels[seed] for panels in of_columns)
        for seed in of_columns[0]
        if all(seed in panels for panels in of_columns)
    }


def _column(study: Study, rows: Rows, side: Side, column: str, weight: float) -> dict[int, Panel]:
    arm, _, stage = (side if isinstance(side, str) else side[column]).partition("/")
    key = "control" if stage else "success"
    outcomes = {row["seed"]: row[key][column] for row in rows if row["arm"] == arm and row[key] is not None}
    return {seed: _panel(outcome, study.samples.get(column, 1), weight) for seed, outcome in outcomes.items()}


def _panel(outcome: Sequence[Any], samples: int, weight: float) -> Panel:
    """From success, number of episodes and, in newer rows, success by task."""
    success, episodes, *by_task = outcome
    tasks = sum(score is not None for score in by_task[0]) if by_task else episodes // samples
    return Panel.of(success, tasks, by_task[0] if by_task else None, weight)


def differences(study: Study, rows: Rows, ordering: Ordering, columns: Sequence[str]) -> dict[int, Panels]:
    """Between the two sides, on the seeds that both have, of one engine."""
    better, worse = (seeds_of(study, rows, side, columns) for side in (ordering.better, ordering.worse))
    engines = {seed: {row.get("engine") for row in rows if row["seed"] == seed} for seed in better}
    both = sorted(seed for seed in better.keys() & worse.keys() if len(engines[seed]) == 1)
    return {seed: difference(better[seed], worse[seed]) for seed in both}


def cell(seeds: BySeed, signed: bool = False) -> str:
    """Mean and half of the 95% interval over seeds and tasks, which is symmetric; in percent."""
    by_seed = [value(panels) for panels in seeds.values()]
    return with_interval(by_seed, of_tasks(list(seeds.values())) if len(seeds) > 1 else SEEDS_ALONE, signed, 100.0)


def with_interval(
    by_seed: Sequence[float], tasks: TaskVariance = SEEDS_ALONE, signed: bool = False, times: float = 1.0
) -> str:
    """Mean and half of the 95% interval over seeds, and tasks where their variance is given; empty without seeds.

    Args:
        times: factor of what is shown.
    """
    if not by_seed:
        return ""
    text = f"{round(times * mean(by_seed), 1) + 0.0:{'+' if signed else ''}.1f}"
    if len(by_seed) > 1:
        low, high = crossed(by_seed, tasks)
        text += f" ±{times * (high - low) / 2:.1f}"
    return text


def measured(rows: Rows, side: Side, name: str) -> dict[int, float]:
    """A measure of an arm by seed; none of a control, or of several arms."""
    of_arm = [row for row in rows if row["arm"] == side]
    return {row["seed"]: row["measures"][name] for row in of_arm if name in row.get("measures", {})}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of a claim that the design names."""

    on: str
    p: float | None
    """Corrected for all claims of the page (Holm); None until both sides have all seeds of the design."""
    seeds: BySeed
    """The difference."""
    stale: bool
    """Of rows that the present code did not make, some of them at least."""

    @property
    def found(self) -> str:
        if self.p is None:
            return "too few seeds of the design"
        in_favour = mean(map(value, self.seeds.values())) > 0
        return "not shown" if self.p >= 0.05 else "holds" if in_favour else "reversed"

    def __str__(self) -> str:
        where = "" if self.on == AVERAGE else f" on {self.on}"
        return f"{self.found}{where}{', by older code' if self.stale else ''}"


def verdicts(study: Study, by_study: Mapping[str, Rows]) -> dict[tuple[str, str], Verdict]:
    """Of the claims that the designs of a page name, by study and claim; of the others there is none.

    Rows of other seeds than the design's do not count: what they show was known when the claim was written. Nor do
    some of its seeds: to look at these, and go on where they show nothing, would be a test of its own.

    Args:
        by_study: rows.
    """
    claims, compared = on_page(study), []
    for name, claim in claims:
        rows, columns = DESIGNS[name].own(by_study[name]), claim.columns(STUDIES[name])
        compared.append(differences(STUDIES[name], rows, claim.ordering, columns))
    known = [
        crossed_p([*map(value, seeds.values())], of_tasks([*seeds.values()]))
        if len(seeds) == len(DESIGNS[name].seeds)
        else None
        for (name, _), seeds in zip(claims, compared, strict=True)
    ]
    corrected = holm([1.0 if p is None else p for p in known])
    return {
        (name, claim.ordering.claim): Verdict(
            on=claim.column,
            p=p and corrected[number],
            seeds=seeds,
            stale=p is not None and any_stale(DESIGNS[name].own(by_study[name]), claim.ordering),
        )
        for number, ((name, claim), p, seeds) in enumerate(zip(claims, known, compared, strict=True))
    }


def any_stale(rows: Rows, ordering: Ordering) -> bool:
    """True if a row of an arm that a claim compares is of older code."""
    sides = ([side] if isinstance(side, str) else side.values() for side in (ordering.better, ordering.worse))
    arms = {side.partition("/")[0] for side in chain.from_iterable(sides)}
    return any(why(row) for row in rows if row["arm"] in arms)


def arms_table(study: Study, rows: Rows) -> Iterator[str]:
    """Success of every arm, and what it took."""
    columns = list(study.columns)
    spent = {"episodes": "{:.0f}", "gradient_groups": "{:.2f}", "tokens": "{:.0f}", "minutes": "{:.1f}"}
    spent = {key: form for key, form in spent.items() if all(key in row for row in rows)}
    named = [key.replace("gradient_groups", "groups with a gradient") for key in spent]
    heads = [*columns, "average", *study.measures, *named]
    yield f"| arm | seeds | {' | '.join(heads)} |"
    yield f"|---|---|{'---|' * len(heads)}"
    for side in [side for arm in study.arms for side in (arm, f"{arm}/control")]:
        seeds = seeds_of(study, rows, side, columns)
        if not seeds:
            continue
        cells = [cell(seeds_of(study, rows, side, [column])) for column in columns]
        arm, _, control = side.partition("/")
        of_arm = [row for row in rows if row["arm"] == arm]
        took = ["" if control else _mean(form, [row[key] for row in of_arm]) for key, form in spent.items()]
        beside = [with_interval([*measured(rows, side, name).values()]) for name in study.measures]
        yield f"| {side} | {len(seeds)} | {' | '.join([*cells, cell(seeds), *beside, *took])} |"


def _mean(form: str, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return form.format(mean(known)) if known else ""


def orderings_table(study: Study, rows: Rows, name: str, judged: Mapping[str, Verdict]) -> Iterator[str]:
    """Paired differences in percentage points, and of the study's measures.

    Args:
        judged: by claim.
    """
    columns = [] if name in study.averaged else list(study.columns)
    measures = [
        measure
        for measure in study.measures
        if any(measure_difference(rows, ordering, measure) for ordering in study.orderings[name])
    ]
    heads = ["claim", *columns, "average", "seeds in favour", *measures, "p", "verdict"]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for ordering in study.orderings[name]:
        seeds = differences(study, rows, ordering, list(study.columns))
        if not seeds:
            continue
        cells = [cell(differences(study, rows, ordering, [column]), signed=True) for column in columns]
        beside = [measure_difference(rows, ordering, measure) for measure in measures]
        verdict = judged.get(ordering.claim)
        p = "" if verdict is None or verdict.p is None else _p(verdict.p)
        yield f"| {' | '.join([ordering.claim, *cells, *averaged(seeds), *beside, p, str(verdict or 'exploratory')])} |"


def _p(p: float) -> str:
    """As a cell; a p that would be rounded to 0 is said to be less than what is shown."""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def measure_difference(rows: Rows, ordering: Ordering, measure: str) -> str:
    """The paired difference of a measure as a cell."""
    better, worse = (measured(rows, side, measure) for side in (ordering.better, ordering.worse))
    return with_interval([better[seed] - worse[seed] for seed in sorted(better.keys() & worse.keys())], signed=True)


def averaged(seeds: BySeed) -> tuple[str, str]:
    """Paired differences as two cells: their mean, and how many are in favour."""
    return cell(seeds, signed=True), f"{sum(round(value(panels), 9) > 0 for panels in seeds.values())} of {len(seeds)}"


def equal_table(study: Study, rows: Rows) -> Iterator[str]:
    """Success on the watched panel at equal budgets, of the arms that have curves, on the seeds that all have.

    Rows without updates do not count.
    """
    by_arm = {
        arm: {row["seed"]: row for row in rows if row["arm"] == arm and "curve_spent" in row}
        for arm in chain(*study.curves.values())
    }
    seeds = set.intersection(*map(set, by_arm.values()))
    if not seeds:
        yield "No results yet."
        return
    heads, cells = equal({arm: _mean_curve([of[seed] for seed in seeds]) for arm, of in by_arm.items()})
    yield f"| arm | {' | '.join(map(' '.join, heads))} |"
    yield f"|---|{'---|' * len(heads)}"
    yield from (f"| {arm} | {' | '.join(of_arm)} |" for arm, of_arm in cells.items())


def _mean_curve(rows: Rows) -> Curve:
    """Over seeds; updates and minutes are counted from the cloned weights on."""
    points = [
        [
            (episodes, tokens, updates if place else 0, minutes - row["curve_spent"][0][1], success)
            for place, ((episodes, tokens, success), (updates, minutes)) in enumerate(
                zip(row["curve"], row["curve_spent"], strict=True)
            )
        ]
        for row in rows
    ]
    *spent, success = zip(*(map(mean, zip(*at, strict=True)) for at in zip(*points, strict=True)), strict=True)
    x = dict(zip(("episodes", "tokens", "updates", "minutes"), spent, strict=True))
    return Curve(x=x, mean=success, low=success, high=success, seeds=len(rows))


def claims_table(by_study: Mapping[str, Rows]) -> Iterator[str]:
    """The claims of all designs with their verdicts, those that do not hold, too, and how many have which."""
    yield "| study | claim | difference | p | verdict |"
    yield "|---|---|---|---|---|"
    found: Counter[str] = Counter()
    for name, study in STUDIES.items():
        link = name if study.page == OVERVIEW else f"[{name}]({relpath(study.page, OVERVIEW.parent)})"
        judged = verdicts(study, by_study)
        for claim in DESIGNS[name].claims:
            verdict = judged[name, claim.ordering.claim]
            p = "" if verdict.p is None else _p(verdict.p)
            found[verdict.found + ", by older code" * verdict.stale] += 1
            yield f"| {link} | {claim.ordering.claim} | {cell(verdict.seeds, signed=True)} | {p} | {verdict} |"
    yield ""
    yield f"Of {found.total()} claims: {', '.join(f'{number} *{verdict}*' for verdict, number in found.most_common())}."


def notes(study_name: str, rows: Rows) -> Iterator[str]:
    """What a page says below a table: rows of older code, other seeds than the design's, unknown tasks."""
    yield from remarks(rows)
    engines = Counter(row["engine"] for row in rows if "engine" in row)
    yield from (f"{number} of {len(rows)} rows were made with engine={name}." for name, number in engines.items())
    if len(versions := {tuple(row["versions"].items()) for row in rows if "versions" in row}) > 1:
        yield f"They are of {len(versions)} sets of package versions."
    design = DESIGNS[study_name].seeds
    there = {row["seed"] for row in rows}
    if not DESIGNS[study_name].claims:
        yield "No claim was named beforehand."
    elif not there <= set(design):
        age = "older than" if max(there) < design.start else "not of"
        yield f"They are {age} the design, with other seeds than its {len(design)}."
    elif len(there) < len(design):
        yield f"{len(there)} of the design's {len(design)} seeds."
    for claim in DESIGNS[study_name].claims:
        if claim.power < 0.8:
            yield f"The power to show {claim.ordering.claim} was {claim.power:g}, less than a design's 0.8."
    if any(len(score) < 3 for row in rows for score in row["success"].values()):
        yield "They lack outcomes by task: intervals take the most that tasks can add."


def page(path: Path, text: str, by_study: Mapping[str, Rows]) -> str:
    """A page with its tables renewed; what stands around them is kept.

    Raises:
        ValueError: it has no place for one of them.
    """
    for name, study in STUDIES.items():
        if study.page != path:
            continue
        rows = DESIGNS[name].reported(by_study[name])
        judged = {
            claim: verdict for (of_study, claim), verdict in verdicts(study, by_study).items() if of_study == name
        }
        below = list(notes(name, rows))
        tables = {study.table: chain(arms_table(study, rows), [""] * bool(below), below)}
        tables |= {table: orderings_table(study, rows, table, judged) for table in study.orderings}
        if study.equal:
            tables[study.equal] = equal_table(study, rows)
        for table, lines in tables.items():
            text = with_table(text, table, "\n".join(lines) if rows else "No results yet.", path)
    return with_table(text, "claims", "\n".join(claims_table(by_study)), path) if path == OVERVIEW else text


def with_table(text: str, name: str, table: str, where: Path) -> str:
    """A page's text with a table in its block, without blanks beside its bars.

    Raises:
        ValueError: it has no such block.
    """
    block = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not block.search(text):
        raise ValueError(f"{where} has no block '<!-- table {name} -->'")
    tight = re.sub(r"^\|.*", lambda line: re.sub(r" *\| *", "|", line[0]), table, flags=re.MULTILINE)
    return block.sub(lambda match: f"{match[1]}{tight}\n{match[2]}", text)


def pictures(study: Study, rows: Rows) -> None:
    """Validation success over tokens of training episodes, and minutes of training where all rows know them, of arms
    with more points than one. Minutes of older rows hold evaluations, and begin later than at 0.
    """
    for name, arms in study.curves.items():
        of_arm = {arm: [row for row in rows if row["arm"] == arm and len(row["curve"]) > 1] for arm in arms}
        timed = all(row.get("curve_spent", [None])[0] == [0, 0.0] for row in chain(*of_arm.values()))
        axes = {"tokens": "thousand tokens of training episodes"} | (
            {"minutes": "minutes of training"} if timed else {}
        )
        lines = []
        for colour, arm in zip(ARMS, arms, strict=False):
            seeds = [_line(row, axes) for row in of_arm[arm]]
            if seeds:
                x, y = zip(*seeds, strict=True)
                lines += [Line("", colour, *seed, thin=True) for seed in seeds]
                lines.append(Line(arm, colour, {axis: _means([of[axis] for of in x]) for axis in axes}, _means(y)))
        if lines:
            chart = Chart("", axes, lines, 100.0, y_label="success on validation tasks, %")
            png.write(DOCS / "images" / f"{name}.png", [[(chart, axis) for axis in axes]])


def _line(row: Mapping[str, Any], axes: Iterable[str]) -> tuple[dict[str, list[float]], list[float]]:
    """Places on the axes, and success in percent."""
    x = {"tokens": [tokens / 1000 for _, tokens, _ in row["curve"]]}
    if "minutes" in axes:
        x["minutes"] = [minutes for _, minutes in row["curve_spent"]]
    return x, [100 * success for *_, success in row["curve"]]


def _means(seeds: Iterable[Sequence[float]]) -> list[float]:
    """Of each place, over seeds."""
    return list(map(mean, zip(*seeds, strict=True)))
