"""Compare arms: success over seeds, paired differences, and what they cost."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import hypot
from statistics import mean

from agentgym_rl.eval.by_seed import Panel, Panels, difference, mean_of, of_tasks, value
from agentgym_rl.eval.comparison.arms import Arm, arms
from agentgym_rl.eval.comparison.runs import Run
from agentgym_rl.eval.crossed import crossed, crossed_p, holm
from agentgym_rl.eval.score import DECODINGS

BOTH = "seeds and tasks"


@dataclass(frozen=True, slots=True)
class Column:
    """A panel of an environment, or the average over all environments."""

    env: str
    panel: str
    parts: tuple[tuple[str, str, float], ...]
    """Environment, panel and weight."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds with its 95% interval; success as a share."""

    mean: float
    interval: tuple[float, float] | None
    over: str
    """What the interval is over: seeds and tasks (:func:`.crossed.crossed`), tasks (of single runs), or nothing."""
    by_seed: Mapping[int, float]
    p: float | None = None
    """Of a difference over several seeds, corrected for all differences that are shown (Holm)."""

    @property
    def clear(self) -> bool:
        """Whether a difference holds together with all that are shown."""
        return self.p is not None and self.p < 0.05


@dataclass(frozen=True, slots=True)
class Difference:
    """An arm minus another on the same seeds."""

    arm: str
    baseline: str
    cells: tuple[Estimate | None, ...]
    """By column; None where the two share no seed."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a stage spent, and what it gained for that compared with the stage before."""

    episodes: float
    """Training episodes, mean over runs."""
    tokens: float | None
    """Of these episodes; None where a run does not say."""
    updates: float | None
    minutes: float
    """Mean over runs; evaluations on the way count, the one at the end does not."""
    per_1000_episodes: tuple[float | None, ...]
    """Success gained, a column each; None without episodes or without a stage before."""
    per_minute: tuple[float | None, ...]

    @property
    def has_gains(self) -> bool:
        """Whether there is a stage before, to gain over."""
        return any(rate is not None for rate in self.per_minute)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything a table, a file or a page shows."""

    runs: tuple[Run, ...]
    by: str
    """What arms are called by, see :data:`.arms.NAMINGS`."""
    decoding: str
    arms: tuple[Arm, ...]
    columns: tuple[Column, ...]
    success: tuple[tuple[Estimate | None, ...], ...]
    """By arm and column; None where an arm has no such panel."""
    differences: tuple[Difference, ...]
    costs: tuple[Cost, ...]
    """By arm."""
    reference: Mapping[str, Mapping[tuple[str, str], float]]
    """Success of the random policy and the oracle, by environment and panel, where a run's summary has them."""

    @property
    def has_gains(self) -> bool:
        """Whether some arm gained or lost against a stage before."""
        return any(cost.has_gains for cost in self.costs)

    @property
    def has_single_seeds(self) -> bool:
        """Whether some intervals are over the tasks of a panel, of a single seed."""
        return any(cell is not None and cell.over == "tasks" for row in self.success for cell in row)

    @property
    def strangers(self) -> list[tuple[str, str]]:
        """Pairs of runs, by name, that share no panel; they cannot be compared."""
        pairs = combinations(self.runs, 2)
        return [(run.name, other.name) for run, other in pairs if not run.digests.keys() & other.digests.keys()]

    @property
    def bounds(self) -> dict[str, tuple[float | None, ...]]:
        """Success of the random policy and the oracle by column."""
        return {
            policy: tuple(_weighted(scores, column) for column in self.columns)
            for policy, scores in self.reference.items()
        }


def compare(
    runs: Sequence[Run], decoding: str = "sampled", baseline: str | None = None, by: str = "short"
) -> Comparison:
    """Compare runs of any algorithms and seeds.

    Args:
        by: what arms are called by, one of :data:`.arms.NAMINGS`. With ``run`` the intervals of differences are over
            the tasks of a panel, by Newcombe's hybrid of the two runs' own (1998, method 10), which takes no account
            of the tasks being the same and is therefore rather too wide.
        baseline: label of the arm that the others are compared with on the same seeds; left out, each is compared
            with the stage before (bc, else untrained) of the same run. An algorithm is compared with the control stage
            of the same run always.

    Raises:
        ValueError: the runs cannot be compared (see :func:`arms`), or there is no such decoding or arm.
    """
    if decoding not in DECODINGS:
        raise ValueError(f"decoding {decoding!r} is unknown; choose {' or '.join(DECODINGS)}")
    all_arms = arms(runs, by)
    columns = _columns(runs)
    labels = [arm.label for arm in all_arms]
    if baseline is not None and baseline not in labels:
        raise ValueError(f"there is no arm {baseline!r}; the arms are: {'; '.join(labels)}")
    against = None if baseline is None else all_arms[labels.index(baseline)]
    of = _run_differences if by == "run" else _arm_differences
    return Comparison(
        runs=tuple(runs),
        by=by,
        decoding=decoding,
        arms=tuple(all_arms),
        columns=columns,
        success=tuple(tuple(success(arm, column, decoding) for column in columns) for arm in all_arms),
        differences=_corrected(tuple(of(all_arms, against, columns, decoding))),
        costs=tuple(_cost(arm, columns, decoding) for arm in all_arms),
        reference=_reference(runs),
    )


def _arm_differences(
    all_arms: Sequence[Arm], baseline: Arm | None, columns: Sequence[Column], decoding: str
) -> Iterator[Difference]:
    """On the seeds that both have."""
    for arm in all_arms:
        if baseline is None:
            start = stage_before(arm.runs[0], arm.stage)
            pairs = [(start, [_within(arm, start, column, decoding) for column in columns])] if start else []
        else:
            pairs = [(baseline.label, [_between(arm, baseline, column, decoding) for column in columns])]
        if _beside_control(arm, baseline) and any("control" in run.stages for run in arm.runs):
            pairs.append(("control", [_within(arm, "control", column, decoding) for column in columns]))
        for against, cells in pairs:
            if against != arm.label and (baseline or any(cells)):
                yield Difference(arm.label, against, tuple(_paired(values) for values in cells))


def _run_differences(
    all_arms: Sequence[Arm], baseline: Arm | None, columns: Sequence[Column], decoding: str
) -> Iterator[Difference]:
    """Of arms that are single runs: with the baseline, else with an earlier stage of the same run."""
    for arm in all_arms:
        run = arm.runs[0]
        by_stage = {sibling.stage: sibling for sibling in all_arms if sibling.runs[0] is run}
        others = [by_stage.get(stage_before(run, arm.stage) or "") if baseline is None else baseline]
        if _beside_control(arm, baseline):
            others.append(by_stage.get("control"))
        for other in others:
            if other is not None and other is not arm:
                pairs = [[success(side, column, decoding) for side in (arm, other)] for column in columns]
                yield Difference(arm.label, other.label, tuple(_over_tasks(*pair) for pair in pairs))


def _beside_control(arm: Arm, baseline: Arm | None) -> bool:
    """Whether an algorithm is compared with its control beside the baseline, which may be that control."""
    own = baseline is not None and baseline.stage == "control" and any(run is baseline.runs[0] for run in arm.runs)
    return arm.stage not in ("untrained", "bc", "control") and not own


def _over_tasks(mine: Estimate | None, theirs: Estimate | None) -> Estimate | None:
    """A run's success minus another's; None where one of them has none."""
    if mine is None or theirs is None:
        return None
    centre, seed = mine.mean - theirs.mean, next(iter(mine.by_seed))
    if mine.interval is None or theirs.interval is None:
        return Estimate(centre, None, "nothing", {seed: centre})
    (low, high), (other_low, other_high) = mine.interval, theirs.interval
    below = hypot(mine.mean - low, other_high - theirs.mean)
    above = hypot(high - mine.mean, theirs.mean - other_low)
    return Estimate(centre, (centre - below, centre + above), "tasks", {seed: centre})


def _reference(runs: Sequence[Run]) -> dict[str, dict[tuple[str, str], float]]:
    """The same in all runs, whose panels have the same tasks."""
    references: dict[str, dict[tuple[str, str], float]] = {}
    for run in runs:
        for policy, panels in run.reference.items():
            scores = {
                (env, label): score["success"]
                for label, by_env in panels.items()
                for env, score in by_env.items()
                if score["n"]
            }
            references.setdefault(policy, {}).update(scores)
    return references


def _weighted(scores: Mapping[tuple[str, str], float], column: Column) -> float | None:
    """A column's mean; None where a part of it is not known."""
    if any((env, label) not in scores for env, label, _ in column.parts):
        return None
    return sum(weight * scores[env, label] for env, label, weight in column.parts)


def stage_before(run: Run, stage: str) -> str | None:
    """The stage a stage of a run is compared with: cloning, or the untrained model; None for the first."""
    before = {"untrained": (), "bc": ("untrained",)}.get(stage, ("bc", "untrained"))
    return next((name for name in before if name in run.stages), None)


def _columns(runs: Sequence[Run]) -> tuple[Column, ...]:
    """Panels without those that runs choose weights by; then their average if there are several environments."""
    panels = list({panel: None for run in runs for panel in run.digests})
    chosen_by = {(env, label) for run in runs for env, label in run.digests if run.is_validation(env, label)}
    panels = [panel for panel in panels if panel not in chosen_by] or panels
    columns = [Column(env, label, ((env, label, 1.0),)) for env, label in panels]
    of_env = Counter(env for env, _ in panels)
    if len(of_env) > 1:
        parts = tuple((env, label, 1 / len(of_env) / of_env[env]) for env, label in panels)
        columns.append(Column("all environments", "average", parts))
    return tuple(columns)


def _panels(run: Run, stage: str, column: Column, decoding: str) -> Panels | None:
    """Success of a run; None where it was not evaluated on every part of a column."""
    panels, parts = run.stages[stage]["panels"], []
    for env, label, weight in column.parts:
        result = panels.get(label, {}).get(env, {}).get(decoding)
        if result is None or result["n"] == 0:
            return None
        parts.append(Panel.of(result["success"], result["tasks"], result.get("by_task"), weight))
    return tuple(parts)


def _by_seed(runs: Sequence[tuple[int, Panels | None]]) -> dict[int, Panels]:
    """Mean of each seed's runs; a seed without any is left out."""
    measured = [(seed, panels) for seed, panels in runs if panels is not None]
    return {
        seed: mean_of([panels for run_seed, panels in measured if run_seed == seed]) for seed in sorted(dict(measured))
    }


def _successes(arm: Arm, column: Column, decoding: str) -> dict[int, Panels]:
    return _by_seed([(run.seed, _panels(run, arm.stage, column, decoding)) for run in arm.runs])


def success(arm: Arm, column: Column, decoding: str) -> Estimate | None:
    """Success of an arm, averaged over seeds; None where none of its runs was evaluated on all of the column."""
    panels_by_seed = _successes(arm, column, decoding)
    if not panels_by_seed:
        return None
    values = {seed: value(panels) for seed, panels in panels_by_seed.items()}
    centre = mean(values.values())
    if len(values) > 1:
        low, high = crossed(list(values.values()), of_tasks(list(panels_by_seed.values())))
        return Estimate(centre, (max(0.0, low), min(1.0, high)), BOTH, values)
    if len(column.parts) > 1:
        return Estimate(centre, None, "nothing", values)
    (env, label, _), seed = column.parts[0], next(iter(values))
    measured = [run for run in arm.runs if run.seed == seed and _panels(run, arm.stage, column, decoding) is not None]
    bounds = [run.stages[arm.stage]["panels"][label][env][decoding]["ci95"] for run in measured]
    low, high = map(mean, zip(*bounds, strict=True))  # of several runs at least as wide as that of their mean
    return Estimate(centre, (low, high), "tasks", values)


def _gain(run: Run, stage: str, before: str | None, column: Column, decoding: str) -> Panels | None:
    """A stage minus another of the same run; None where the run lacks one of them, or of their panels."""
    if before is None or before not in run.stages:
        return None
    mine, theirs = (_panels(run, at, column, decoding) for at in (stage, before))
    return None if mine is None or theirs is None else difference(mine, theirs)


def _within(arm: Arm, other: str, column: Column, decoding: str) -> dict[int, Panels]:
    """A stage minus another of the same run."""
    return _by_seed([(run.seed, _gain(run, arm.stage, other, column, decoding)) for run in arm.runs])


def _between(arm: Arm, other: Arm, column: Column, decoding: str) -> dict[int, Panels]:
    """An arm minus another on the seeds both have."""
    mine, theirs = (_successes(side, column, decoding) for side in (arm, other))
    return {seed: difference(mine[seed], theirs[seed]) for seed in mine if seed in theirs}


def _paired(panels_by_seed: Mapping[int, Panels]) -> Estimate | None:
    if not panels_by_seed:
        return None
    values = {seed: value(panels) for seed, panels in panels_by_seed.items()}
    by_seed = list(values.values())
    if len(by_seed) < 2:
        return Estimate(by_seed[0], None, "nothing", values)
    tasks = of_tasks(list(panels_by_seed.values()))
    return Estimate(mean(by_seed), crossed(by_seed, tasks), BOTH, values, crossed_p(by_seed, tasks))


def _corrected(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """With p values that take account of each other."""
    p_values = [cell.p for pair in differences for cell in pair.cells if cell is not None and cell.p is not None]
    corrected = iter(holm(p_values))

    def with_p(cell: Estimate | None) -> Estimate | None:
        return cell if cell is None or cell.p is None else replace(cell, p=next(corrected))

    return tuple(replace(pair, cells=tuple(map(with_p, pair.cells))) for pair in differences)


def _cost(arm: Arm, columns: Sequence[Column], decoding: str) -> Cost:
    """Gains per cost are ratios of sums over runs, of those that have both."""
    episodes = [run.stages[arm.stage]["episodes"] for run in arm.ended]
    minutes = [run.stages[arm.stage]["wall_s"] / 60 for run in arm.ended]

    def spent(name: str) -> float | None:
        amounts = [facts[name] for run in arm.ended if name in (facts := run.stages[arm.stage])]
        return mean(amounts) if len(amounts) == len(arm.ended) else None

    def rate(column: Column, spent: Sequence[float]) -> float | None:
        gains = [_gain(run, arm.stage, stage_before(run, arm.stage), column, decoding) for run in arm.ended]
        pairs = [(gain, amount) for gain, amount in zip(gains, spent, strict=True) if gain is not None]
        cost = sum(amount for _, amount in pairs)
        return sum(value(gain) for gain, _ in pairs) / cost if cost else None

    return Cost(
        episodes=mean(episodes),
        tokens=spent("tokens"),
        updates=spent("updates"),
        minutes=mean(minutes),
        per_1000_episodes=tuple(rate(column, [count / 1000 for count in episodes]) for column in columns),
        per_minute=tuple(rate(column, minutes) for column in columns),
    )
