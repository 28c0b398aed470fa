"""Two results on the same panel: is the difference significant, and which tasks changed sides?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from agentgym_rl.eval.evaluation.result import Result
from agentgym_rl.eval.evaluation.rules import flat
from agentgym_rl.eval.evaluation.scores import Measure, Outcome
from agentgym_rl.eval.intervals import Interval, bootstrap, mcnemar_p, sign_flip_p, wilson

Pair = tuple[Outcome, Outcome]


@dataclass(frozen=True, slots=True)
class Difference:
    """Success of the second result minus that of the first, over the tasks that ran in both."""

    env: str
    """``all`` for the tasks of all environments together."""
    first: float
    second: float
    difference: Measure
    """With the paired bootstrap's interval; see :func:`_interval` where all tasks differ alike."""
    p: float
    """Two-sided: McNemar's exact test with one sample a task in both, else random signs of the tasks' differences."""
    gained: tuple[str, ...]
    """Tasks that flipped from fail to pass: solved by more than half the samples in the second only."""
    lost: tuple[str, ...]
    """Tasks that flipped from pass to fail."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two results differ."""

    test: str
    differences: tuple[Difference, ...]
    """Of each environment with a task that counts in both results; of all together where all of several have one."""
    left_out: tuple[str, ...]
    """Tasks of which one result has no episode that counts."""
    departures: tuple[str, ...]
    """Settings in which the two evaluations differ beside the policy."""


def compare(first: Result, second: Result) -> Comparison:
    """Compare two results task by task.

    Raises:
        ValueError: they are on different panels, or have no task with an episode that counts in both.
    """
    if first.digest != second.digest:
        names = [f"{result.digest} ({_panel(result)})" for result in (first, second)]
        raise ValueError(
            f"the results are on different panels, {names[0]} and {names[1]}; only results on the same tasks can be "
            "compared"
        )
    others = {outcome.item_id: outcome for outcome in second.outcomes}
    pairs = [(outcome, others[outcome.item_id]) for outcome in first.outcomes]
    counted = [pair for pair in pairs if pair[0].counted and pair[1].counted]
    if not counted:
        raise ValueError("no task has an episode that counts in both results; evaluate again to run what failed")
    single = all(len(outcome.success) == 1 for pair in pairs for outcome in pair)
    parts = [(env, [pair for pair in counted if pair[0].env == env]) for env in first.by_env]
    parts += [("all", counted)] if len(parts) > 1 and all(own_pairs for _, own_pairs in parts) else []
    return Comparison(
        test="McNemar's exact test" if single else "random signs of the tasks' differences",
        differences=tuple(_difference(env, own_pairs, single, first.digest) for env, own_pairs in parts if own_pairs),
        left_out=tuple(pair[0].item_id for pair in pairs if pair not in counted),
        departures=tuple(_departures(first.plan, second.plan)),
    )


def _difference(env: str, pairs: Sequence[Pair], single: bool, seed: str) -> Difference:
    means = [(outcome.item_id, outcome.mean, other.mean) for outcome, other in pairs]
    changes = [after - before for _, before, after in means]
    gained = tuple(item_id for item_id, before, after in means if before <= 0.5 < after)
    lost = tuple(item_id for item_id, before, after in means if after <= 0.5 < before)
    return Difference(
        env=env,
        first=fmean(before for _, before, _ in means),
        second=fmean(after for _, _, after in means),
        difference=Measure(fmean(changes), _interval(changes, f"{seed} {env}"), len(changes)),
        p=mcnemar_p(len(gained), len(lost)) if single else sign_flip_p(changes, f"{seed} {env}"),
        gained=gained,
        lost=lost,
    )


def _interval(changes: Sequence[float], seed: str) -> Interval:
    """The paired bootstrap of equal differences has no width. None of ``n`` tasks differs otherwise then, of which
    Wilson's interval says how many of all tasks may; they may do so by anything from -1 to 1.
    """
    if len(set(changes)) > 1:
        return bootstrap(changes, seed)
    change, (_, others) = changes[0], wilson(0, len(changes))
    return change - others * (1 + change), change + others * (1 - change)


def _panel(result: Result) -> str:
    return ", ".join(f"{env} {panel['name']}, n={panel['n']}" for env, panel in result.plan["panel"]["envs"].items())


def _departures(*plans: Mapping[str, Any]) -> list[str]:
    """Leaves that differ, as ``key: one, other``; the policy and the panel's names are not among them."""
    rules = [{key: plan[key] for key in plan.keys() - {"policy", "weights", "panel"}} for plan in plans]
    first, second = ({key: value for key, value in flat(rule) if value != {}} for rule in rules)
    keys = sorted({*first, *second})
    return [f"{key}: {first.get(key)}, {second.get(key)}" for key in keys if first.get(key) != second.get(key)]
